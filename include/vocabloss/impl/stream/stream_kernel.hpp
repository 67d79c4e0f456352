// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_IMPL_STREAM_STREAM_KERNEL_HPP
#define VOCABLOSS_IMPL_STREAM_STREAM_KERNEL_HPP

/// \file
/// \brief The streaming ceiling: kernels that move each stream of a problem once and do nothing else.
///
/// Several variants exist, since no single one is the fastest for every size and card; a timing loop runs them all and
/// keeps the best (share_of_stream.hpp).

#include <vocabloss/impl/stream/stream_host.hpp>
#include <vocabloss/impl/stream/stream_problem.hpp>

#include <Kokkos_Core.hpp>

#if defined(KOKKOS_ENABLE_CUDA)
#include <vocabloss/impl/stream/stream_bulk.cuh>
#include <vocabloss/impl/stream/stream_cuda.cuh>
#endif

#include <string>
#include <type_traits>
#include <vector>

namespace vocabloss::Impl {

struct StreamVariant {
  enum class Kind { plain, non_temporal, bulk };
  Kind kind = Kind::plain;
  int width = 1;  ///< plain: 16-byte loads a thread and stream; bulk: CTAs a multiprocessor

  std::string name() const {
    switch (kind) {
      case Kind::plain:
        return "plain x" + std::to_string(width);
      case Kind::non_temporal:
        return "non-temporal";
      case Kind::bulk:
        return "bulk x" + std::to_string(width);
    }
    return "?";
  }
};

/// Whether Exec's kernels are CUDA's.
template <class Exec>
inline constexpr bool streams_on_cuda =
#if defined(KOKKOS_ENABLE_CUDA)
    std::is_same_v<Exec, Kokkos::Cuda>;
#else
    false;
#endif

/// All variants worth trying on `exec`.
template <class Exec>
std::vector<StreamVariant> stream_variants(const Exec& exec) {
  using Kind = StreamVariant::Kind;
  if constexpr (streams_on_cuda<Exec>) {
    std::vector<StreamVariant> variants = {{Kind::plain, 1}, {Kind::plain, 2}, {Kind::plain, 4}};
#if defined(KOKKOS_ENABLE_CUDA)
    if (exec.cuda_device_prop().major >= 9) {
      variants.push_back({Kind::bulk, 1});
      variants.push_back({Kind::bulk, 2});
    }
#endif
    return variants;
  } else {
    (void)exec;
    std::vector<StreamVariant> variants = {{Kind::plain, 1}};
    if (has_non_temporal_stores) variants.push_back({Kind::non_temporal, 1});
    return variants;
  }
}

/// Enqueues one streaming kernel on `exec`. The written matrix is left with rubbish (an exclusive or of what was read).
template <class Exec>
void stream(const Exec& exec, const StreamProblem& problem, const StreamVariant& variant) {
  using Kind = StreamVariant::Kind;
  const StreamUnits all = stream_units(problem);
  if (all.rows == 0 || all.units == 0 || all.reads == 0) return;
  if constexpr (streams_on_cuda<Exec>) {
#if defined(KOKKOS_ENABLE_CUDA)
    if (variant.kind == Kind::bulk) {
      return stream_bulk(exec.cuda_stream(), all, exec.cuda_device_prop().multiProcessorCount, variant.width);
    }
    if (variant.width >= 4) return stream_plain<4>(exec.cuda_stream(), all);
    if (variant.width == 2) return stream_plain<2>(exec.cuda_stream(), all);
    stream_plain<1>(exec.cuda_stream(), all);
#endif
  } else if (variant.kind == Kind::non_temporal) {
    stream_on_host<true>(exec, all);
  } else {
    stream_on_host<false>(exec, all);
  }
}

}  // namespace vocabloss::Impl

#endif
