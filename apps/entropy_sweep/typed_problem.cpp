// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#include "typed_problem.hpp"

namespace entropy_sweep {

vocabloss::Path library_path(Path path) {
  switch (path) {
    case Path::reference:
      return vocabloss::Path::reference;
    case Path::naive:
      return vocabloss::Path::naive;
    case Path::team:
      return vocabloss::Path::team;
    case Path::cluster:
      return vocabloss::Path::cluster;
    case Path::split:
      return vocabloss::Path::split;
    case Path::automatic:
      return vocabloss::Path::automatic;
    case Path::gather:
      break;
  }
  return vocabloss::Path::gather;
}

vocabloss::Exchange library_exchange(std::optional<Exchange> exchange) {
  if (exchange == Exchange::two_allreduce) return vocabloss::Exchange::two_allreduce;
  if (exchange == Exchange::in_kernel) return vocabloss::Exchange::in_kernel;
  return vocabloss::Exchange::allgather;
}

vocabloss::Pass library_pass(Pass pass) {
  switch (pass) {
    case Pass::forward:
      return vocabloss::Pass::forward;
    case Pass::backward:
      return vocabloss::Pass::backward;
    case Pass::forward_backward:
      break;
  }
  return vocabloss::Pass::forward_backward;
}

}  // namespace entropy_sweep
