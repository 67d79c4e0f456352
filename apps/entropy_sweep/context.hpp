// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef ENTROPY_SWEEP_CONTEXT_HPP
#define ENTROPY_SWEEP_CONTEXT_HPP

/// \file
/// Facts about the machine that belong beside every number.

#include <iosfwd>
#include <string>

namespace entropy_sweep {

/// Now, ISO 8601 in UTC: 2026-11-28T09:30:00Z.
std::string date_now();

/// The processor's model name from a text in the form of /proc/cpuinfo; "unknown processor" without one.
std::string processor_name(std::istream& cpuinfo);

/// "Intel(R) Xeon(R) ..., 8 threads": the card of a host run.
std::string host_card(int threads);

}  // namespace entropy_sweep

#endif  // ENTROPY_SWEEP_CONTEXT_HPP
