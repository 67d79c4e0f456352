// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_COMM_CONCEPT_HPP
#define VOCABLOSS_COMM_CONCEPT_HPP

/// \file
/// \brief What moves numbers between the ranks that share a vocabulary: the least that the library needs of it.
///
/// A communicator is a move-only value that owns its handles, or not, as the function that made it says. It knows
/// nothing of losses. `self` (comm/self.hpp), MPI (comm/mpi.hpp, component mpi) and NCCL (comm/nccl.hpp, component
/// nccl) are shipped; a user's own type that satisfies the concept works with every Plan.
///
/// Exchanges read and write memory of the execution space `Exec`, in the order of the instance they are given; input
/// and output do not overlap. All ranks make the same calls in the same order with the same counts.
///   all_gather(exec, in, out, count)       out[r * count + i] = rank r's in[i]
///   all_reduce_max(exec, in, out, count)   out[i] = the largest in[i] of any rank
///   all_reduce_sum(exec, in, out, count)   out[i] = the sum of in[i] over the ranks
/// None of them is a barrier. With `is_asynchronous` they only enqueue, and may be captured in a CUDA graph; otherwise
/// they wait for the instance and return when the output is there.
///
/// Errors: an exchange that fails throws CommunicationError, as does every later one. What goes wrong after an exchange
/// was enqueued is asked for: `poll_error()` returns its text or an empty string, `check()` throws it, `wait(exec)` is
/// a fence of the instance that ends with the error instead of never.

#include <concepts>
#include <cstddef>
#include <string>

namespace vocabloss::comm {

template <class C, class Exec>
concept VocabCommunicator = std::movable<C> && !std::copy_constructible<C> &&
                            requires(C & comm, const Exec& exec, const float* in, float* out, const double* wide_in,
                                     double* wide_out, std::size_t count) {
  { C::is_asynchronous } -> std::convertible_to<bool>;
  { comm.rank() } -> std::convertible_to<int>;
  { comm.size() } -> std::convertible_to<int>;
  comm.all_gather(exec, in, out, count);
  comm.all_gather(exec, wide_in, wide_out, count);
  comm.all_reduce_max(exec, in, out, count);
  comm.all_reduce_max(exec, wide_in, wide_out, count);
  comm.all_reduce_sum(exec, in, out, count);
  comm.all_reduce_sum(exec, wide_in, wide_out, count);
  { comm.poll_error() } -> std::convertible_to<std::string>;
  comm.check();
  comm.wait(exec);
  { comm.describe(exec) } -> std::convertible_to<std::string>;
};

}  // namespace vocabloss::comm

#endif
