// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef ENTROPY_SWEEP_CASES_HPP
#define ENTROPY_SWEEP_CASES_HPP

/// \file
/// The sweep: the product of the option lists as a list of cases. An option that a case does not use does not multiply
/// it, and a combination that no machine could run is left out with one note.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "names.hpp"
#include "options.hpp"

namespace entropy_sweep {

/// One point of the sweep. A choice that the case does not use is empty.
struct Case {
  Loss loss = Loss::reverse_kl;
  Path path = Path::automatic;
  std::optional<Exchange> exchange{};
  Comm comm = Comm::self;
  Pass pass = Pass::forward_backward;
  std::int64_t rows = 0;
  std::int64_t vocab = 0;
  ValueType type = ValueType::bf16;
  std::optional<std::int64_t> block_cap{};  ///< columns; empty: the plan chooses, or the path has none
  std::string variant{};                    ///< shape of path cluster; empty: the plan chooses, or the path has none
  bool in_place = false;                    ///< never without a gradient
  bool accumulate = false;
  std::optional<ValueType> teacher{};  ///< how the teacher is stored; empty: as the logits

  bool operator==(const Case&) const = default;
};

/// What a file says of the problem, in place of --rows and --vocab (and of --type, unless that was given).
struct InputShape {
  std::int64_t rows = 0;
  std::int64_t vocab = 0;
  ValueType type = ValueType::bf16;
  std::optional<ValueType> teacher{};  ///< empty: as the logits
};

struct Sweep {
  std::vector<Case> cases{};
  std::vector<std::string> notes{};  ///< what was left out or not used, a line each
};

/// The cases in order of size, type, loss, path, exchange, block cap, variant: neighbours share their data.
/// No case occurs twice. Throws nothing but bad_alloc; an empty sweep is possible and says why in its notes.
Sweep make_sweep(const Options& options, const std::optional<InputShape>& input = std::nullopt);

/// "reverse_kl team cap 4096, 4096 x 32768 bf16": for progress and messages.
std::string describe(const Case& one);

/// Streams of vocabulary width that the problem needs, each moved once, in bytes: reads, and the gradient's write.
std::int64_t bytes_of(const Case& one);

}  // namespace entropy_sweep

#endif  // ENTROPY_SWEEP_CASES_HPP
