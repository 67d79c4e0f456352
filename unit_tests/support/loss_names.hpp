// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors

#ifndef VOCABLOSS_TEST_LOSS_NAMES_HPP
#define VOCABLOSS_TEST_LOSS_NAMES_HPP

/// \file
/// The shipped losses as types, for typed tests, and readable names for them.

#include <gtest/gtest.h>

#include <vocabloss/loss/losses.hpp>

#include <string>

namespace test {

#define VOCABLOSS_TEST_LOSS(Tag, name_)        \
  struct Tag {                                 \
    template <class Real>                      \
    using Loss = vocabloss::loss::Tag<Real>;   \
    static constexpr const char* name = name_; \
  }
VOCABLOSS_TEST_LOSS(CrossEntropy, "cross_entropy");
VOCABLOSS_TEST_LOSS(LogProb, "log_prob");
VOCABLOSS_TEST_LOSS(SoftCrossEntropy, "soft_cross_entropy");
VOCABLOSS_TEST_LOSS(SoftCrossEntropyProbabilities, "soft_cross_entropy_probabilities");
VOCABLOSS_TEST_LOSS(ForwardKl, "forward_kl");
VOCABLOSS_TEST_LOSS(ReverseKl, "reverse_kl");
VOCABLOSS_TEST_LOSS(Jsd, "jsd");
VOCABLOSS_TEST_LOSS(ZLoss, "z_loss");
VOCABLOSS_TEST_LOSS(Entropy, "entropy");
VOCABLOSS_TEST_LOSS(LogProbEntropy, "log_prob_entropy");
#undef VOCABLOSS_TEST_LOSS

using AllLosses = ::testing::Types<CrossEntropy, LogProb, SoftCrossEntropy, SoftCrossEntropyProbabilities, ForwardKl,
                                   ReverseKl, Jsd, ZLoss, Entropy, LogProbEntropy>;

struct LossNames {
  template <class Tag>
  static std::string GetName(int) {
    return Tag::name;
  }
};

}  // namespace test

#endif
