// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_IMPL_CHECKED_OPTIONS_HPP
#define VOCABLOSS_IMPL_CHECKED_OPTIONS_HPP

/// \file
/// \brief Ranges of LossOptions. A user's loss with options of its own overloads these functions beside them (found by
/// argument-dependent lookup) or gets the neutral ones.

#include <vocabloss/error.hpp>
#include <vocabloss/loss/options.hpp>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

namespace vocabloss::Impl {

template <class Options>
void check_options(const Options&) {}

template <class Options>
double loss_factor(const Options&) {
  return 1.0;
}

/// The options by name, which ranks compare before they share a vocabulary.
using OptionValues = std::vector<std::pair<std::string, double>>;

template <class Options>
OptionValues option_values(const Options&) {
  return {};
}

inline void check_options(const LossOptions& options) {
  const auto positive = [](const char* name, double value) {
    expects(std::isfinite(value) && value > 0,
            [&] { return std::string(name) + " must be finite and positive, got " + std::to_string(value); });
  };
  positive("logit_scale", options.logit_scale);
  positive("teacher_scale", options.teacher_scale);
  positive("temperature", options.temperature);
  expects(options.jsd_beta >= 0 && options.jsd_beta <= 1, [&] {
    return "jsd_beta must lie in [0, 1] (0: forward KL, 1: reverse KL), got " + std::to_string(options.jsd_beta);
  });
}

inline OptionValues option_values(const LossOptions& options) {
  return {{"logit_scale", options.logit_scale},
          {"teacher_scale", options.teacher_scale},
          {"temperature", options.temperature},
          {"temperature_squared", options.temperature_squared ? 1.0 : 0.0},
          {"jsd_beta", options.jsd_beta}};
}

inline double loss_factor(const LossOptions& options) {
  return options.temperature_squared ? options.temperature * options.temperature : 1.0;
}

/// Unqualified, so that a user's overloads, which stand beside the options, are found.
template <class Options>
void validate_options(const Options& options) {
  check_options(options);
}
template <class Options>
double loss_factor_of(const Options& options) {
  return loss_factor(options);
}

}  // namespace vocabloss::Impl

#endif
