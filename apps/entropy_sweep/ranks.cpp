// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors

#include "ranks.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string_view>
#include <vocabloss/config.hpp>
#include <vocabloss/error.hpp>

#include "options.hpp"

#if VOCABLOSS_HAVE_MPI
#include <mpi.h>
#endif

namespace entropy_sweep {
namespace {

/// Exit codes from worst to best.
constexpr int code_order[] = {exit_bad_input, exit_failed, exit_refused, exit_ok};

int severity(int code) {
  for (int k = 0; k < 4; ++k) {
    if (code_order[k] == code) return 3 - k;
  }
  return 2;  // an unknown code counts as failed
}

bool are_alike(const std::vector<std::string>& texts) {
  return std::adjacent_find(texts.begin(), texts.end(), std::not_equal_to<>()) == texts.end();
}

#if VOCABLOSS_HAVE_MPI
void expect_success(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  throw vocabloss::CommunicationError("entropy_sweep: " + std::string(call) + " failed");
}
#endif

}  // namespace

std::string missing_backend(Comm comm) {
  if (comm == Comm::self) return {};
  if (!VOCABLOSS_HAVE_MPI) {
    return "--comm " + std::string(to_name(comm)) +
           " needs MPI, and this build has none: configure with VocabLoss_ENABLE_MPI=ON";
  }
  if (comm == Comm::nccl && !VOCABLOSS_HAVE_NCCL) {
    return "--comm nccl needs NCCL, and this build has none: configure with VocabLoss_ENABLE_NCCL=ON (and "
           "VocabLoss_ENABLE_CUDA=ON)";
  }
  return {};
}

Ranks::Ranks(Comm comm, [[maybe_unused]] int& argc, [[maybe_unused]] char**& argv)
    : uses_mpi_(VOCABLOSS_HAVE_MPI && comm != Comm::self) {
#if VOCABLOSS_HAVE_MPI
  if (!uses_mpi_) return;
  int running = 0;
  expect_success(MPI_Initialized(&running), "MPI_Initialized");
  if (!running) {
    // Only the main thread calls MPI, beside the threads of Kokkos.
    int provided = 0;
    expect_success(MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided), "MPI_Init_thread");
    started_mpi_ = true;
  }
  MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
  MPI_Comm_size(MPI_COMM_WORLD, &size_);
  MPI_Comm host = MPI_COMM_NULL;
  expect_success(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &host),
                 "MPI_Comm_split_type");
  MPI_Comm_rank(host, &local_rank_);
  MPI_Comm_size(host, &local_size_);
  MPI_Comm_free(&host);
#endif
}

Ranks::~Ranks() {
#if VOCABLOSS_HAVE_MPI
  if (started_mpi_) MPI_Finalize();
#endif
}

double Ranks::largest(double value) const {
#if VOCABLOSS_HAVE_MPI
  if (uses_mpi_) {
    // MPI_MAX may lose a NaN.
    double pair[2] = {std::isnan(value) ? 1.0 : 0.0, std::isnan(value) ? -HUGE_VAL : value};
    MPI_Allreduce(MPI_IN_PLACE, pair, 2, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return pair[0] > 0 ? std::nan("") : pair[1];
  }
#endif
  return value;
}

std::vector<std::string> Ranks::all_texts(const std::string& mine) const {
  std::vector<std::string> texts{mine};
#if VOCABLOSS_HAVE_MPI
  if (uses_mpi_) {
    const int length = static_cast<int>(mine.size());
    std::vector<int> lengths(size_), starts(size_, 0);
    MPI_Allgather(&length, 1, MPI_INT, lengths.data(), 1, MPI_INT, MPI_COMM_WORLD);
    for (int r = 1; r < size_; ++r) starts[r] = starts[r - 1] + lengths[r - 1];
    std::string all(static_cast<std::size_t>(starts.back() + lengths.back()), ' ');
    MPI_Allgatherv(mine.data(), length, MPI_CHAR, all.data(), lengths.data(), starts.data(), MPI_CHAR, MPI_COMM_WORLD);
    texts.clear();
    for (int r = 0; r < size_; ++r) texts.push_back(all.substr(starts[r], lengths[r]));
  }
#endif
  return texts;
}

std::vector<double> Ranks::gather_on_first(const std::vector<double>& mine) const {
#if VOCABLOSS_HAVE_MPI
  if (uses_mpi_) {
    const int length = static_cast<int>(mine.size());
    std::vector<int> lengths(size_), starts(size_, 0);
    MPI_Gather(&length, 1, MPI_INT, lengths.data(), 1, MPI_INT, 0, MPI_COMM_WORLD);
    for (int r = 1; r < size_; ++r) starts[r] = starts[r - 1] + lengths[r - 1];
    std::vector<double> all(is_first() ? static_cast<std::size_t>(starts.back() + lengths.back()) : 0);
    MPI_Gatherv(mine.data(), length, MPI_DOUBLE, all.data(), lengths.data(), starts.data(), MPI_DOUBLE, 0,
                MPI_COMM_WORLD);
    return all;
  }
#endif
  return mine;
}

void Ranks::meet() const {
#if VOCABLOSS_HAVE_MPI
  if (uses_mpi_) MPI_Barrier(MPI_COMM_WORLD);
#endif
}

int Ranks::common_exit_code(int mine) const { return code_order[3 - static_cast<int>(largest(severity(mine)))]; }

void Ranks::say_failure(const std::string& what) const {
  const std::string line =
      "entropy_sweep: rank " + std::to_string(rank_) + " of " + std::to_string(size_) + ": " + what + "\n";
  std::fwrite(line.data(), 1, line.size(), stderr);
  std::fflush(stderr);
}

void Ranks::abort(int code, const std::string& what) const {
  say_failure(what);
#if VOCABLOSS_HAVE_MPI
  if (uses_mpi_ && size_ > 1) MPI_Abort(MPI_COMM_WORLD, code);
#endif
  std::_Exit(code);
}

std::string common_text(const std::vector<std::string>& texts) {
  if (are_alike(texts)) return texts.front();
  std::string all;
  for (std::size_t rank = 0; rank < texts.size(); ++rank) {
    if (texts[rank].empty()) continue;
    all += "rank " + std::to_string(rank) + " of " + std::to_string(texts.size()) + ": " + texts[rank];
  }
  return all;
}

std::string common_status(const std::vector<std::string>& statuses) {
  if (are_alike(statuses)) return statuses.front();
  constexpr std::string_view kinds[] = {"failed", "oom", "refused"};
  const auto kind_of = [&](std::string_view status) {
    const auto* found = std::find(std::begin(kinds), std::end(kinds), status.substr(0, status.find(':')));
    return found == std::end(kinds) ? kinds[0] : *found;
  };
  const std::string* worst = nullptr;
  std::string text;
  for (std::size_t rank = 0; rank < statuses.size(); ++rank) {
    const std::string& status = statuses[rank];
    if (status == "ok") continue;
    const auto order = [&](const std::string& s) { return std::find(std::begin(kinds), std::end(kinds), kind_of(s)); };
    if (!worst || order(status) < order(*worst)) worst = &status;
    const std::size_t colon = status.find(": ");
    text += (text.empty() ? "" : "; ") + ("rank " + std::to_string(rank)) + ": " +
            (colon == std::string::npos ? status : status.substr(colon + 2));
  }
  return worst ? std::string(kind_of(*worst)) + ": " + text : "ok";
}

}  // namespace entropy_sweep
