// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef ENTROPY_SWEEP_MEMORY_HPP
#define ENTROPY_SWEEP_MEMORY_HPP

/// \file
/// How much memory a host run may still take. A system that hands out more than it has ends the whole program where an
/// allocation should have failed, so a case asks first.

#include <cstdint>
#include <string>

namespace entropy_sweep {

/// Bytes free on this host and allowed to this process's group; the largest number where the system does not say.
std::int64_t available_host_memory();

/// The value of "name: N kB" in a text in the form of /proc/meminfo, in bytes; -1 where it is absent.
std::int64_t meminfo_bytes(const std::string& text, const std::string& name);

}  // namespace entropy_sweep

#endif  // ENTROPY_SWEEP_MEMORY_HPP
