// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors

#include "support/run.hpp"

namespace test {

template class CallStorage<vocabloss::bfloat16>;
template class CallStorage<vocabloss::float16>;
template class CallStorage<float>;
template class CallStorage<double>;

}  // namespace test
