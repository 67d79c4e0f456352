// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_IMPL_DISTRIBUTED_AGREEMENT_HPP
#define VOCABLOSS_IMPL_DISTRIBUTED_AGREEMENT_HPP

/// \file
/// \brief All ranks go on, or none does: what one rank refuses must not leave the others waiting in an exchange.

#include <vocabloss/error.hpp>

#include <Kokkos_Core.hpp>

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <exception>
#include <new>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace vocabloss::Impl {

/// Every rank's `mine`, rank after rank. Collective; waits. Numbers that are integers below 2^53 arrive exactly.
template <class Exec, class Comm>
std::vector<double> gather_numbers(const Exec& exec, Comm& comm, const std::vector<double>& mine) {
  // Over a communicator that needs no device memory, none is used.
  using Space = std::conditional_t<Comm::is_asynchronous, Exec, Kokkos::DefaultHostExecutionSpace>;
  using Numbers = Kokkos::View<double*, typename Space::memory_space>;
  using HostNumbers = Kokkos::View<double*, Kokkos::HostSpace>;
  const std::size_t count = mine.size();
  const std::size_t ranks = static_cast<std::size_t>(comm.size());
  HostNumbers host(Kokkos::view_alloc(Kokkos::WithoutInitializing, "VocabLoss::agreement"), count * (ranks + 1));
  std::copy(mine.begin(), mine.end(), host.data());
  Numbers numbers(Kokkos::view_alloc(Kokkos::WithoutInitializing, "VocabLoss::agreement"), count * (ranks + 1));
  Space space;
  if constexpr (std::is_same_v<Space, Exec>) space = exec;
  Kokkos::deep_copy(space, numbers, host);
  comm.all_gather(space, static_cast<const double*>(numbers.data()), numbers.data() + count, count);
  comm.wait(space);
  Kokkos::deep_copy(space, host, numbers);
  space.fence("VocabLoss::agreement");
  return {host.data() + count, host.data() + count * (ranks + 1)};
}

/// A text as a number that a double holds exactly: equal texts, equal numbers.
inline double fingerprint(std::string_view text) {
  std::uint64_t hash = 14695981039346656037u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return static_cast<double>(hash >> 11);
}

inline double host_fingerprint() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 ? fingerprint(name) : 0;
}

/// What became of a rank's part; the larger one wins.
enum class Outcome : int { good = 0, refused = 1, out_of_memory = 2, invalid = 3, failed = 4 };

inline Outcome outcome_of(const std::exception_ptr& error) {
  if (!error) return Outcome::good;
  try {
    std::rethrow_exception(error);
  } catch (const PathRefused&) {
    return Outcome::refused;
  } catch (const OutOfMemory&) {
    return Outcome::out_of_memory;
  } catch (const std::bad_alloc&) {
    return Outcome::out_of_memory;
  } catch (const InvalidArgument&) {
    return Outcome::invalid;
  } catch (...) {
    return Outcome::failed;
  }
}

/// The error of a rank that was fine itself: of the kind that the other one met.
[[noreturn]] inline void throw_for_other_rank(Outcome outcome, int other, int rank) {
  const std::string who = "rank " + std::to_string(other);
  const std::string rest = ", and says why; rank " + std::to_string(rank) + " stops with it";
  switch (outcome) {
    case Outcome::refused:
      throw PathRefused("vocabloss: " + who + " refused" + rest);
    case Outcome::out_of_memory:
      throw OutOfMemory("vocabloss: " + who + " has too little memory" + rest);
    case Outcome::invalid:
      throw InvalidArgument("vocabloss: " + who + " was given what it cannot use" + rest);
    case Outcome::good:
    case Outcome::failed:
      break;
  }
  throw CommunicationError("vocabloss: " + who + " failed" + rest);
}

/// Something that must be the same on all ranks.
struct Fact {
  std::string name;
  double value;
};

inline std::string text_of(double value) {
  return std::floor(value) == value ? std::to_string(static_cast<long long>(value)) : std::to_string(value);
}

/// Throws InvalidArgument where `all`, with `stride` numbers a rank, holds different facts from `first` on.
inline void expect_same_facts(const std::vector<Fact>& facts, const std::vector<double>& all, std::size_t stride,
                              std::size_t first) {
  for (std::size_t rank = 1; rank < all.size() / stride; ++rank) {
    for (std::size_t k = 0; k < facts.size(); ++k) {
      const double here = all[rank * stride + first + k];
      const double on_first = all[first + k];
      expects(here == on_first, [&] {
        return facts[k].name + " must be the same on all ranks: it is " + text_of(on_first) + " on rank 0 and " +
               text_of(here) + " on rank " + std::to_string(rank);
      });
    }
  }
}

/// Runs `action` (which must not exchange anything) on every rank; where it throws on one, all throw: that rank its own
/// error, the others an error of the same kind that names it. Then compares what `facts()` says. Collective: one
/// gather.
template <class Exec, class Comm, class Action, class Facts>
void in_step(const Exec& exec, Comm& comm, Action&& action, Facts&& facts) {
  std::exception_ptr error;
  try {
    action();
  } catch (...) {
    error = std::current_exception();
  }
  const std::vector<Fact> mine = facts();
  std::vector<double> numbers = {static_cast<double>(outcome_of(error))};
  for (const Fact& fact : mine) numbers.push_back(fact.value);
  const std::vector<double> all = gather_numbers(exec, comm, numbers);
  if (error) std::rethrow_exception(error);
  int worst = 0;
  for (int rank = 0; rank < comm.size(); ++rank) {
    if (all[rank * numbers.size()] > all[worst * numbers.size()]) worst = rank;
  }
  const auto outcome = static_cast<Outcome>(static_cast<int>(all[worst * numbers.size()]));
  if (outcome != Outcome::good) throw_for_other_rank(outcome, worst, comm.rank());
  expect_same_facts(mine, all, numbers.size(), 1);
}

/// Throws InvalidArgument on all ranks where a fact differs; returns what `own` is on every rank, rank after rank.
/// Collective.
template <class Exec, class Comm>
std::vector<double> compare_facts(const Exec& exec, Comm& comm, const std::vector<Fact>& facts,
                                  const std::vector<double>& own) {
  // The count first: ranks that compare other facts would not even send messages of one length.
  const std::vector<double> counts = gather_numbers(exec, comm, {static_cast<double>(facts.size())});
  for (std::size_t rank = 1; rank < counts.size(); ++rank) {
    expects(counts[rank] == counts[0],
            [&] { return "rank " + std::to_string(rank) + " makes a plan for another kind of loss than rank 0"; });
  }
  std::vector<double> mine;
  for (const Fact& fact : facts) mine.push_back(fact.value);
  mine.insert(mine.end(), own.begin(), own.end());
  const std::vector<double> all = gather_numbers(exec, comm, mine);
  expect_same_facts(facts, all, mine.size(), 0);
  std::vector<double> result;
  for (std::size_t rank = 0; rank < counts.size(); ++rank) {
    const auto of_rank = all.begin() + rank * mine.size();
    result.insert(result.end(), of_rank + facts.size(), of_rank + mine.size());
  }
  return result;
}

}  // namespace vocabloss::Impl

#endif
