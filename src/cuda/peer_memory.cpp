// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors

// The CUDA and POSIX calls behind impl/distributed/peer_memory.hpp.

#include <vocabloss/error.hpp>
#include <vocabloss/impl/distributed/agreement.hpp>
#include <vocabloss/impl/distributed/peer_memory.hpp>
#include <vocabloss/impl/expect_cuda.cuh>

#include <Kokkos_Core.hpp>

#include <cuda_runtime_api.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <utility>

namespace vocabloss::Impl {
namespace {

[[noreturn]] void refuse(const std::string& why) {
  throw PathRefused("vocabloss: exchange in_kernel: " + why + ": use exchange allgather");
}

/// Another allocation must not share a window's pages, since all of them become visible to the other processes.
constexpr std::size_t page = std::size_t(2) << 20;
constexpr std::size_t handle_numbers = sizeof(cudaIpcMemHandle_t) / sizeof(std::uint32_t);
/// host, process, number of the object in it, then the handle
constexpr std::size_t invitation_numbers = 3 + handle_numbers;

/// Makes a device the current one for a while.
class OnDevice {
 public:
  explicit OnDevice(int device) {
    cudaGetDevice(&before_);
    cudaSetDevice(device);
  }
  ~OnDevice() { cudaSetDevice(before_); }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

 private:
  int before_ = 0;
};

std::atomic<unsigned long> next_number{0};

}  // namespace

/// How many ranks have closed all windows but their own: a word of shared host memory, under a name that rank 0's
/// invitation gives.
class ClosedCount {
 public:
  ClosedCount(double process, double number) : name_("/vocabloss-" + text_of(process) + "-" + text_of(number)) {
    const int file = shm_open(name_.c_str(), O_CREAT | O_RDWR, 0600);
    if (file < 0) refuse("shared host memory " + name_ + " cannot be had (" + std::strerror(errno) + ")");
    // Whoever comes first makes it, of zeros.
    void* memory = ftruncate(file, sizeof(Count)) == 0
                       ? mmap(nullptr, sizeof(Count), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0)
                       : MAP_FAILED;
    close(file);
    if (memory == MAP_FAILED) {
      forget_name();
      refuse("shared host memory cannot be mapped (" + std::string(std::strerror(errno)) + ")");
    }
    count_ = static_cast<Count*>(memory);
  }
  ~ClosedCount() {
    forget_name();
    munmap(count_, sizeof(Count));
  }
  ClosedCount(const ClosedCount&) = delete;
  ClosedCount& operator=(const ClosedCount&) = delete;

  /// Once all ranks have mapped it: then nothing stays behind if they die.
  void forget_name() {
    if (!name_.empty()) shm_unlink(name_.c_str());
    name_.clear();
  }
  void add_one() { count_->fetch_add(1); }
  int value() const { return count_->load(); }

 private:
  using Count = std::atomic<int>;
  std::string name_;
  Count* count_;
};

namespace {

/// Windows whose owner is done with them, until all other ranks are too.
class RetiredWindows {
 public:
  /// Never destroyed: at its end a process gives everything back anyway, and the driver may be gone before.
  static RetiredWindows& of_this_process() {
    static auto* all = new RetiredWindows;
    return *all;
  }

  void add(int device, void* memory, std::shared_ptr<ClosedCount> closed, int ranks) {
    const std::lock_guard<std::mutex> lock(mutex_);
    windows_.push_back({device, memory, std::move(closed), ranks});
  }
  /// Frees what nobody has open any more.
  void sweep() {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::erase_if(windows_, [](const Window& window) {
      if (window.closed && window.closed->value() < window.ranks) return false;
      const OnDevice there(window.device);
      cudaFree(window.memory);
      return true;
    });
  }

 private:
  struct Window {
    int device;
    void* memory;
    std::shared_ptr<ClosedCount> closed;  ///< null: it was never opened
    int ranks;
  };
  std::mutex mutex_;
  std::vector<Window> windows_;
};

const auto window_space = [] { return Kokkos::Profiling::make_space_handle("Cuda"); };
constexpr const char* window_label = "VocabLoss::window";

}  // namespace

PeerMemory::PeerMemory(int rank, int ranks, std::size_t bytes)
    : rank_(rank), ranks_(ranks), bytes_((bytes + page - 1) / page * page), windows_(ranks), number_(next_number++) {
  RetiredWindows::of_this_process().sweep();
  expect_cuda(cudaGetDevice(&device_), "cudaGetDevice");
  void* word = nullptr;
  expect_cuda(cudaHostAlloc(&word, sizeof *lost_, cudaHostAllocPortable), "cudaHostAlloc");
  lost_.reset(static_cast<unsigned int*>(word));
  *lost_ = 0;
  void* memory = nullptr;
  const cudaError_t code = cudaMalloc(&memory, bytes_);
  if (code != cudaSuccess) {
    throw OutOfMemory("vocabloss: a window of " + std::to_string(bytes_) +
                      " bytes for exchange in_kernel could not be allocated: " + cudaGetErrorString(code));
  }
  windows_[rank] = static_cast<unsigned char*>(memory);
  Kokkos::Profiling::allocateData(window_space(), window_label, memory, bytes_);
  expect_cuda(cudaMemset(memory, 0, bytes_), "cudaMemset");
  expect_cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
}

PeerMemory::~PeerMemory() {
  const OnDevice there(device_);
  cudaDeviceSynchronize();  // a launch may still be using the windows
  for (int other = 0; other < ranks_; ++other) {
    if (other != rank_ && windows_[other]) cudaIpcCloseMemHandle(windows_[other]);
  }
  if (closed_) closed_->add_one();
  Kokkos::Profiling::deallocateData(window_space(), window_label, windows_[rank_], bytes_);
  RetiredWindows::of_this_process().add(device_, windows_[rank_], closed_, ranks_);
  RetiredWindows::of_this_process().sweep();
}

void PeerMemory::FreePinned::operator()(unsigned int* word) const { cudaFreeHost(word); }

std::vector<double> PeerMemory::invitation() const {
  cudaIpcMemHandle_t handle;
  expect_cuda(cudaIpcGetMemHandle(&handle, windows_[rank_]), "cudaIpcGetMemHandle");
  std::uint32_t words[handle_numbers];
  std::memcpy(words, &handle, sizeof handle);
  std::vector<double> numbers = {host_fingerprint(), static_cast<double>(getpid()), static_cast<double>(number_)};
  numbers.insert(numbers.end(), words, words + handle_numbers);
  return numbers;
}

void PeerMemory::open(const std::vector<double>& all) {
  const auto of = [&](int other) { return all.data() + other * invitation_numbers; };
  for (int other = 0; other < ranks_; ++other) {
    const std::string ranks = "ranks " + std::to_string(rank_) + " and " + std::to_string(other);
    if (of(other)[0] != of(rank_)[0]) refuse(ranks + " run on different hosts, and GPUs of one host are needed");
    if (other != rank_ && of(other)[1] == of(rank_)[1]) refuse(ranks + " are one process, and one each is needed");
  }
  closed_ = std::make_shared<ClosedCount>(of(0)[1], of(0)[2]);
  for (int other = 0; other < ranks_; ++other) {
    if (other == rank_) continue;
    std::uint32_t words[handle_numbers];
    for (std::size_t k = 0; k < handle_numbers; ++k) words[k] = static_cast<std::uint32_t>(of(other)[3 + k]);
    cudaIpcMemHandle_t handle;
    std::memcpy(&handle, words, sizeof handle);
    void* memory = nullptr;
    const cudaError_t code = cudaIpcOpenMemHandle(&memory, handle, cudaIpcMemLazyEnablePeerAccess);
    if (code != cudaSuccess) {
      cudaGetLastError();  // it is told here, and is no error of whatever comes next
      refuse("rank " + std::to_string(rank_) + " cannot reach the memory of rank " + std::to_string(other) + " (" +
             cudaGetErrorString(code) + ")");
    }
    windows_[other] = static_cast<unsigned char*>(memory);
  }
}

void PeerMemory::settle() { closed_->forget_name(); }

}  // namespace vocabloss::Impl
