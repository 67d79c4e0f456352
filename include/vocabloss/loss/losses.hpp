// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_LOSS_LOSSES_HPP
#define VOCABLOSS_LOSS_LOSSES_HPP

/// \file
/// \brief All shipped losses.

#include <vocabloss/loss/entropy.hpp>
#include <vocabloss/loss/jsd.hpp>
#include <vocabloss/loss/label_cross_entropy.hpp>
#include <vocabloss/loss/reverse_kl.hpp>
#include <vocabloss/loss/soft_cross_entropy_probabilities.hpp>
#include <vocabloss/loss/teacher_weighted.hpp>
#include <vocabloss/loss/z_loss.hpp>

#endif
