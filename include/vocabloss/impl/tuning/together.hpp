// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_IMPL_TUNING_TOGETHER_HPP
#define VOCABLOSS_IMPL_TUNING_TOGETHER_HPP

/// \file
/// \brief How a tuner's ranks agree: on times, on whether to go on, on what the first rank knows. One rank alone asks
/// nobody.

#include <vocabloss/comm/self.hpp>
#include <vocabloss/impl/distributed/agreement.hpp>

#include <algorithm>
#include <string>
#include <type_traits>
#include <vector>

namespace vocabloss::Impl {

template <class Exec, class Comm>
class Together {
 public:
  Together(const Exec& exec, Comm& comm) : exec_(exec), comm_(comm) {}

  int ranks() const { return comm_.size(); }
  int rank() const { return comm_.rank(); }
  bool alone() const { return std::is_same_v<Comm, comm::Self> || ranks() == 1; }
  Comm& comm() const { return comm_; }

  // Collective, each:

  double largest(double mine) const {
    const std::vector<double> all = gathered({mine});
    return *std::max_element(all.begin(), all.end());
  }
  void meet() const { gathered({0}); }
  /// The numbers of the first rank; all give as many.
  std::vector<double> of_first(const std::vector<double>& mine) const {
    std::vector<double> all = gathered(mine);
    all.resize(mine.size());
    return all;
  }
  std::string text_of_first(const std::string& mine) const {
    const auto length = static_cast<std::size_t>(of_first({static_cast<double>(mine.size())})[0]);
    std::vector<double> letters(mine.begin(), mine.end());
    letters.resize(length);
    std::string text;
    for (const double letter : of_first(letters)) text += static_cast<char>(static_cast<int>(letter));
    return text;
  }
  /// Either all get past `action`, or all throw.
  template <class Action>
  void in_step(Action&& action) const {
    if constexpr (!std::is_same_v<Comm, comm::Self>) {
      if (!alone()) return Impl::in_step(exec_, comm_, action, [] { return std::vector<Fact>(); });
    }
    action();
  }

 private:
  std::vector<double> gathered(const std::vector<double>& mine) const {
    if (mine.empty()) return {};
    if constexpr (!std::is_same_v<Comm, comm::Self>) {
      if (!alone()) return gather_numbers(exec_, comm_, mine);
    }
    return mine;
  }

  Exec exec_;
  Comm& comm_;
};

}  // namespace vocabloss::Impl

#endif
