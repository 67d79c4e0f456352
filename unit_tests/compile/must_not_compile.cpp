// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors

// Calls that must not compile, one per value of CASE; 0 is the call that they spoil, which must. The messages that the
// compiler has to print are in CMakeLists.txt.

#include <vocabloss/vocabloss.hpp>

using vocabloss::bfloat16;
template <class T>
using Matrix = Kokkos::View<T**, Kokkos::LayoutRight>;
template <class T>
using Vector = Kokkos::View<T*>;

#if CASE == 1
/// Memory that no host or device of this build can reach.
struct FarSpace {
  using memory_space = FarSpace;
  using execution_space = Kokkos::DefaultExecutionSpace;
  using device_type = Kokkos::Device<execution_space, memory_space>;
  using size_type = std::size_t;
};
#endif

struct NotALoss {
  using Options = vocabloss::LossOptions;
  struct Statistics {
    float value;
  };
};
template <class>
using NotALossTemplate = NotALoss;

void call(Matrix<bfloat16> x, Matrix<bfloat16> t, Matrix<bfloat16> dx, Vector<float> losses, Vector<int> labels) {
  vocabloss::Batch<bfloat16> batch;
  batch.logits(x).teacher(t).gradient(dx).losses(losses).labels(labels);
#if CASE == 1
  batch.logits(Kokkos::View<bfloat16**, Kokkos::LayoutRight, FarSpace, Kokkos::MemoryUnmanaged>());
#elif CASE == 2
  batch.logits(Matrix<float>());
#elif CASE == 3
  batch.teacher(Matrix<double>());
#elif CASE == 4
  batch.gradient(Matrix<const bfloat16>());
#elif CASE == 5
  batch.losses(Vector<double>());
#elif CASE == 6
  batch.labels(Vector<float>());
#elif CASE == 7
  batch.logits(Vector<bfloat16>());
#elif CASE == 8
  batch.mask(Vector<int>());
#elif CASE == 9
  vocabloss::Plan<NotALossTemplate, bfloat16> plan(Kokkos::DefaultExecutionSpace(), batch);
#endif
}
