// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef ENTROPY_SWEEP_DEVICE_CONTEXT_HPP
#define ENTROPY_SWEEP_DEVICE_CONTEXT_HPP

/// \file
/// The context of a run: the card that the default execution space uses, and the build.

#include <string>

#include "report.hpp"

namespace entropy_sweep {

/// Needs Kokkos to be running.
Context current_context();

/// "entropy_sweep 0.1.0 (git 0123456789ab)".
std::string version_text();

}  // namespace entropy_sweep

#endif  // ENTROPY_SWEEP_DEVICE_CONTEXT_HPP
