// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_IMPL_CUDA_SPLIT_LAUNCH_CUH
#define VOCABLOSS_IMPL_CUDA_SPLIT_LAUNCH_CUH

/// \file
/// \brief Starts the kernel of path `split`: on the caller's stream, without allocating or waiting, so that a CUDA
/// graph can capture it.
///
/// The launch is cooperative: the driver starts all blocks of the grid or none, so that blocks may wait for each other.

#include <vocabloss/error.hpp>
#include <vocabloss/impl/cuda/split_kernel.cuh>
#include <vocabloss/impl/cuda/split_shapes.hpp>

#include <cuda_runtime.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <string>

namespace vocabloss::Impl {

inline void check_split_call(cudaError_t code, const std::string& call) {
  if (code == cudaSuccess) return;
  throw CudaError("vocabloss: path split: " + call + ": " + cudaGetErrorString(code));
}

/// Why path `split` cannot run such a call, or an empty string.
inline std::string split_refusal(const Problem& problem) {
  const auto two_of = [](DataType type, DataType logits) { return type == logits || type == DataType::fp32; };
  constexpr std::int64_t most_columns = 2147483647 - 64;
  if (problem.logits == DataType::fp64) {
    return "path split accumulates in float: logits of fp64 need path team";
  }
  if (problem.partition.columns > most_columns) {
    return "path split counts columns in 32 bits: at most " + std::to_string(most_columns) + ", got " +
           std::to_string(problem.partition.columns);
  }
  if (problem.teacher && !two_of(*problem.teacher, problem.logits)) {
    return std::string("path split takes a teacher of the logits' type or fp32, got ") + name_of(*problem.teacher) +
           " beside logits of " + name_of(problem.logits) + ": use path team";
  }
  if (problem.gradient && !two_of(*problem.gradient, problem.logits)) {
    return std::string("path split stores a gradient of the logits' type or fp32, got ") + name_of(*problem.gradient) +
           " beside logits of " + name_of(problem.logits) + ": use path team";
  }
  return "";
}

/// Device memory that launches of one plan share; see split_initialise.
template <class Loss>
constexpr std::size_t split_workspace_bytes(const SplitShape& shape) {
  return split_workspace_bytes(std::size_t(split_words<Loss>), shape);
}

/// Zeroes the workspace, once, before the first launch on it. Launches on one workspace must follow one another.
inline void split_initialise(void* workspace, std::size_t bytes, cudaStream_t stream) {
  check_split_call(cudaMemsetAsync(workspace, 0, bytes, stream), "cudaMemsetAsync");
}

/// Lets the kernel use the ring's shared memory and asks how many blocks run at once; the answer is kept per device.
template <class Loss, class T>
int split_resident_blocks() {
  constexpr int max_devices = 64;
  static std::array<std::atomic<int>, max_devices> known{};
  int device = 0;
  check_split_call(cudaGetDevice(&device), "cudaGetDevice");
  std::atomic<int>& count = known[device % max_devices];
  if (const int blocks = count.load(std::memory_order_acquire)) return blocks;
  int per_multiprocessor = 0, multiprocessors = 0;
  check_split_call(
      cudaFuncSetAttribute(split_rows<Loss, T>, cudaFuncAttributeMaxDynamicSharedMemorySize, split_ring_bytes),
      "cudaFuncSetAttribute(" + std::to_string(split_ring_bytes) + " bytes of shared memory)");
  check_split_call(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&per_multiprocessor, split_rows<Loss, T>,
                                                                 split_threads, split_ring_bytes),
                   "cudaOccupancyMaxActiveBlocksPerMultiprocessor");
  check_split_call(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device),
                   "cudaDeviceGetAttribute");
  count.store(per_multiprocessor * multiprocessors, std::memory_order_release);
  return per_multiprocessor * multiprocessors;
}

/// Vectors of a block's slice: of the longest row that a row of so many columns can be, wherever it starts.
template <class T>
int split_slice_vectors(const RowCall<float>& call, int group) {
  constexpr int lanes = vector_columns<T>;
  const bool aligned = reinterpret_cast<std::uintptr_t>(call.logits.data) % 16 == 0 &&
                       (call.rows == 1 || call.logits.stride * static_cast<std::int64_t>(sizeof(T)) % 16 == 0);
  const std::int64_t columns = static_cast<std::int64_t>(call.columns) + (aligned ? 0 : lanes - 1);
  const std::int64_t vectors = (columns + lanes - 1) / lanes;
  return static_cast<int>((vectors + group - 1) / group);
}

/// Enqueues one launch. `workspace` holds split_workspace_bytes<Loss>(shape), zeroed once by split_initialise.
template <class Loss, class Logit>
void launch_split(const Loss& loss, const RowCall<Accumulate<Logit>>& call, vocabloss::Pass pass,
                  const SplitShape& shape, void* workspace, cudaStream_t stream) {
  static_assert(std::is_same_v<Accumulate<Logit>, float>, "path split accumulates in float");
  if (call.rows == 0) return;
  if (!call.gradient.data) {
    if (pass == vocabloss::Pass::backward) return;
    pass = vocabloss::Pass::forward;
  }
  const int resident = split_resident_blocks<Loss, Logit>();
  const int groups = static_cast<int>(std::min<std::int64_t>(shape.groups, call.rows));
  const int blocks = groups * shape.group;
  if (blocks > resident || blocks > shape.blocks_at_most) {
    throw PathRefused("vocabloss: path split: " + std::to_string(blocks) + " blocks have to be resident at once (" +
                      shape.describe() + "), this device holds " + std::to_string(resident));
  }
  SplitLaunch launch;
  launch.workspace.header = static_cast<SplitHeader*>(workspace);
  launch.workspace.numbers = reinterpret_cast<std::uint32_t*>(static_cast<char*>(workspace) + split_header_bytes);
  launch.workspace.words = reinterpret_cast<std::uint64_t*>(static_cast<char*>(workspace) + split_words_offset(shape));
  launch.workspace.blocks = blocks;
  launch.workspace.blocks_at_most = shape.blocks_at_most;
  launch.workspace.group = shape.group;
  launch.workspace.numbers_of_launch = static_cast<std::uint32_t>(Loss::rounds * ((call.rows + groups - 1) / groups));
  launch.groups = groups;
  launch.slice_vectors = split_slice_vectors<Logit>(call, shape.group);
  launch.pass = pass;

  cudaLaunchAttribute attribute;
  attribute.id = cudaLaunchAttributeCooperative;
  attribute.val.cooperative = shape.group > 1 && pass != vocabloss::Pass::backward;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(blocks);
  config.blockDim = dim3(split_threads);
  config.dynamicSmemBytes = split_ring_bytes;
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = 1;
  check_split_call(cudaLaunchKernelEx(&config, split_rows<Loss, Logit>, loss, call, launch),
                   "cooperative launch of " + std::to_string(blocks) + " blocks");
}

}  // namespace vocabloss::Impl

#endif
