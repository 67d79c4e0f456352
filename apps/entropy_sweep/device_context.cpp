// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#include "device_context.hpp"

#include <Kokkos_Core.hpp>
#include <string>
#include <vocabloss/version.hpp>

#include "context.hpp"

namespace entropy_sweep {

Context current_context() {
  const Kokkos::DefaultExecutionSpace exec;
  Context context;
  context.date = date_now();
  context.version = vocabloss::version_string;
  context.git = vocabloss::git_revision;
  context.execution = exec.name();
#if defined(KOKKOS_ENABLE_CUDA)
  int driver = 0;
  cudaDriverGetVersion(&driver);
  context.card = exec.cuda_device_prop().name;
  context.driver = "CUDA " + std::to_string(driver / 1000) + "." + std::to_string(driver % 1000 / 10);
#else
  context.card = host_card(exec.concurrency());
#endif
  return context;
}

std::string version_text() {
  return "entropy_sweep " + std::string(vocabloss::version_string) + " (git " + vocabloss::git_revision + ")";
}

}  // namespace entropy_sweep
