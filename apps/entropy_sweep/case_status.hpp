// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef ENTROPY_SWEEP_CASE_STATUS_HPP
#define ENTROPY_SWEEP_CASE_STATUS_HPP

/// \file
/// From exceptions to the status of a case, the same on all ranks: what one rank meets alone must not leave the others
/// waiting for it in an exchange.

#include <exception>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>

#include "options.hpp"
#include "ranks.hpp"

namespace entropy_sweep {

/// "refused: ...", "oom: ..." or "failed: ..." for the exception being handled.
std::string status_of_current_exception();

/// Ends a case with a status that all ranks know.
class CaseEnded : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Memory that a case would need and that is not there.
class OutOfMemory : public std::bad_alloc {
 public:
  explicit OutOfMemory(std::string message) : message_(std::move(message)) {}
  const char* what() const noexcept override { return message_.c_str(); }

 private:
  std::string message_;
};

/// Runs `action`, which must not talk to other ranks, on each; where it throws on one, all throw the same CaseEnded.
/// Collective.
template <class Action>
void in_step(const Ranks& ranks, Action&& action) {
  std::string status = "ok";
  try {
    action();
  } catch (...) {
    status = status_of_current_exception();
  }
  const std::string common = common_status(ranks.all_texts(status));
  if (common != "ok") throw CaseEnded(common);
}

/// Runs `action`, which talks to the other ranks. An exception in the middle of that ends the whole run, because nobody
/// knows how far the others are; alone, it goes on to the caller.
template <class Action>
void all_or_none(const Ranks& ranks, Action&& action) {
  try {
    action();
  } catch (const CaseEnded&) {  // agreed on
    throw;
  } catch (const std::exception& error) {
    if (ranks.size() > 1) ranks.abort(exit_failed, error.what());
    throw;
  }
}

}  // namespace entropy_sweep

#endif  // ENTROPY_SWEEP_CASE_STATUS_HPP
