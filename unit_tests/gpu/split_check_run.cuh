// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_SPLIT_CHECK_RUN_CUH
#define VOCABLOSS_SPLIT_CHECK_RUN_CUH

/// \file
/// \brief Runs one case of split_check on the device and compares every row and every guard byte.

#include "split_check_case.cuh"

namespace split_check {

class Run {
 public:
  Run(const LossEntry& loss, const Case& c) : loss_(loss), c_(c) {
    x_.shape(c.type, c.rows, c.columns, c.pad, c.offset);
    fill(x_, c, false, false, 1);
    if (loss.streams == 2) {
      t_.shape(c.teacher_type, c.rows, c.columns, c.pad, c.teacher_offset);
      fill(t_, c, true, !loss.teacher_is_logits, 2);
    }
    if (!c.in_place) {
      g_.shape(c.gradient_type, c.rows, c.columns, c.pad, c.gradient_offset);
      if (c.accumulate) {
        Case plain = c;
        plain.special = false;
        fill(g_, plain, false, false, 3);
      }
    }
    std::mt19937 random(5);
    for (std::int64_t i = 0; i < c.rows; ++i) {
      std::int64_t label = random() % c.columns;
      if (Special::ignored(c, i)) label = -100;
      if (Special::label_outside(c, i)) label = i % 2 ? c.columns : -1;
      labels_.push_back(label);
      mask_.push_back(Special::masked(c, i) ? 0 : 1);
      for (int k = 0; k < 2; ++k) upstream_[k].push_back(0.5f + 0.25f * static_cast<float>(random() % 7));
      weights_.push_back(1.0f + 0.5f * static_cast<float>(random() % 3));
    }
    labels32_.assign(labels_.begin(), labels_.end());
    CUDA(cudaGetDevice(&device_));
    CUDA(cudaDeviceGetAttribute(&sm_count_, cudaDevAttrMultiProcessorCount, device_));
    shape_ = Impl::choose_split_shape(c.rows, c.columns, loss.streams, c.type, sm_count_, loss.blocks_each);
    if (c.group) {
      shape_.group = std::min(c.group, shape_.blocks_at_most);
      shape_.groups = static_cast<int>(std::min<std::int64_t>(c.rows, shape_.blocks_at_most / shape_.group));
    }
    if (c.most_rows) shape_.groups = std::min(shape_.groups, c.most_rows);
  }

  /// Empty if all is well, else what is wrong. Three runs must give the same bits.
  std::string check() {
    Buffer labels(labels_.size() * 8), labels32(labels_.size() * 4), mask(mask_.size()), weights(weights_.size() * 4);
    Buffer up0(weights_.size() * 4), up1(weights_.size() * 4), losses(c_.rows * 8 + 64, 0xff);
    Buffer statistics(c_.rows * loss_.statistics * 4 + 64, 0xff), workspace(loss_.workspace_bytes(shape_) + 64, 0xff);
    put(labels, labels_), put(labels32, labels32_), put(mask, mask_), put(weights, weights_);
    put(up0, upstream_[0]), put(up1, upstream_[1]);
    Impl::split_initialise(workspace.device, loss_.workspace_bytes(shape_), nullptr);

    RowCall<float> call;
    call.rows = c_.rows, call.columns = static_cast<int>(c_.columns), call.vocab = c_.columns;
    call.logits = {x_.first(), x_.type, x_.stride};
    if (loss_.streams == 2) call.teacher = {t_.first(), t_.type, t_.stride};
    Matrix& g = c_.in_place ? x_ : g_;
    call.gradient = {g.first(), g.type, g.stride, c_.accumulate};
    if (loss_.needs_label || c_.special) {
      if (c_.long_labels) {
        call.labels64.data = reinterpret_cast<std::int64_t*>(labels.device);
      } else {
        call.labels32.data = reinterpret_cast<std::int32_t*>(labels32.device);
      }
    }
    if (c_.special) call.mask.data = mask.device;
    call.row_weights.data = reinterpret_cast<float*>(weights.device);
    call.upstream[0].data = reinterpret_cast<float*>(up0.device);
    call.upstream[1].data = reinterpret_cast<float*>(up1.device);
    call.gradient_factor = 0.5f, call.loss_factor = 2.0f;
    for (int k = 0; k < loss_.outputs; ++k) call.losses[k] = reinterpret_cast<float*>(losses.device) + k * c_.rows;
    if (c_.two_calls) call.statistics = reinterpret_cast<float*>(statistics.device);
    has_labels_ = call.has_labels();

    std::string wrong;
    std::vector<unsigned char> first_losses, first_gradient;
    for (int repeat = 0; repeat < 3 && wrong.empty(); ++repeat) {
      x_.buffer.upload();
      if (!c_.in_place) g_.buffer.upload();
      losses.upload();
      if (c_.two_calls) {
        RowCall<float> forward = call;
        forward.gradient = {};
        loss_.launch(c_.type, forward, Pass::forward, shape_, workspace.device, nullptr);
        RowCall<float> backward = call;
        backward.losses[0] = backward.losses[1] = nullptr;
        loss_.launch(c_.type, backward, Pass::backward, shape_, workspace.device, nullptr);
      } else {
        loss_.launch(c_.type, call, Pass::forward_backward, shape_, workspace.device, nullptr);
      }
      CUDA(cudaDeviceSynchronize());
      const auto got_losses = losses.download();
      const auto got_gradient = g.buffer.download();
      if (repeat == 0) {
        first_losses = got_losses, first_gradient = got_gradient;
        wrong = compare(got_losses, g, got_gradient);
        if (wrong.empty() && !c_.in_place && x_.buffer.download() != x_.buffer.host) wrong = "logits were changed";
        const auto rest = workspace.download();
        for (std::size_t b = rest.size() - 64; b < rest.size(); ++b) {
          if (rest[b] != 0xff) wrong = "workspace overrun";
        }
      } else if (got_losses != first_losses || got_gradient != first_gradient) {
        wrong = "run " + std::to_string(repeat) + " gave other bits";
      }
    }
    return wrong;
  }

  const SplitShape& shape() const { return shape_; }

 private:
  template <class T>
  static void put(Buffer& buffer, const std::vector<T>& values) {
    std::memcpy(buffer.host.data(), values.data(), values.size() * sizeof(T));
    buffer.upload();
  }

  std::string compare(const std::vector<unsigned char>& losses, const Matrix& g,
                      const std::vector<unsigned char>& got) {
    std::vector<std::string> wrong(c_.rows);
    std::vector<std::thread> threads;
    const int workers = static_cast<int>(std::min<std::int64_t>(c_.rows, std::thread::hardware_concurrency()));
    for (int k = 0; k < workers; ++k) {
      threads.emplace_back([&, k] {
        for (std::int64_t i = k; i < c_.rows; i += workers) wrong[i] = compare_row(i, losses, g, got);
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (std::int64_t i = 0; i < c_.rows; ++i) {
      if (!wrong[i].empty()) return "row " + std::to_string(i) + ": " + wrong[i];
    }
    // Guard bytes: all that is no column of a row.
    std::vector<bool> inside(got.size() / size_of(g.type), false);
    for (std::int64_t i = 0; i < c_.rows; ++i) {
      std::fill_n(inside.begin() + g.index(i, 0), c_.columns, true);
    }
    for (std::size_t e = 0; e < inside.size(); ++e) {
      for (int b = 0; !inside[e] && b < size_of(g.type); ++b) {
        if (got[e * size_of(g.type) + b] != Matrix::guard) return "guard broken at element " + std::to_string(e);
      }
    }
    for (std::size_t b = loss_.outputs * c_.rows * 4; b < losses.size(); ++b) {
      if (losses[b] != 0xff) return "losses overrun";
    }
    return "";
  }

  std::string compare_row(std::int64_t i, const std::vector<unsigned char>& losses, const Matrix& g,
                          const std::vector<unsigned char>& got) const {
    const double nan = std::nan("");
    reference::RowOutput expected{{nan, nan}, std::vector<double>(c_.columns, nan)};
    const bool is_masked = Special::masked(c_, i) || (has_labels_ && Special::ignored(c_, i));
    const bool is_poisoned = !is_masked && has_labels_ && Special::label_outside(c_, i);
    const double weight = weights_[i];
    if (is_masked) {
      expected = {{0, 0}, std::vector<double>(c_.columns, 0.0)};
    } else if (!is_poisoned) {
      reference::RowInput row;
      for (std::int64_t j = 0; j < c_.columns; ++j) {
        row.x.push_back(read(x_.type, x_.buffer.host.data(), x_.index(i, j)));
        if (loss_.streams == 2) row.t.push_back(read(t_.type, t_.buffer.host.data(), t_.index(i, j)));
      }
      row.label = static_cast<int>(labels_[i]);
      for (int k = 0; k < 2; ++k) row.upstream[k] = upstream_[k][i] * weight * 0.5;
      expected = loss_.expected(row);
      for (double& value : expected.losses) value *= 2.0 * weight;
    }
    char text[160];
    for (int k = 0; k < loss_.outputs; ++k) {
      const double ours = reinterpret_cast<const float*>(losses.data())[k * c_.rows + i];
      const double wanted = expected.losses[k];
      const bool same = std::isfinite(wanted) ? std::fabs(ours - wanted) <= 1e-5 * std::fmax(1.0, std::fabs(wanted))
                        : std::isnan(wanted)  ? std::isnan(ours)
                                              : ours == wanted;
      if (!same) {
        std::snprintf(text, sizeof text, "loss %d is %.9g, expected %.9g", k, ours, wanted);
        return text;
      }
    }
    // Against the unrounded gradient: half a unit in the last place, and what float arithmetic adds. Rows that are all
    // but decided by one column (spread above 1) lose digits in the difference of large logarithms.
    double difference = 0, norm = 0;
    for (std::int64_t j = 0; j < c_.columns; ++j) {
      const double ours = read(g.type, got.data(), g.index(i, j));
      const double before = c_.accumulate ? read(g.type, g.buffer.host.data(), g.index(i, j)) : 0.0;
      const double wanted = expected.gradient[j] + before;
      if (std::isnan(wanted) ? !std::isnan(ours) : !std::isfinite(ours)) {
        std::snprintf(text, sizeof text, "gradient %lld is %.9g, expected %.9g", static_cast<long long>(j), ours,
                      wanted);
        return text;
      }
      if (std::isfinite(wanted)) difference += (ours - wanted) * (ours - wanted), norm += wanted * wanted;
    }
    const double arithmetic = c_.spread > 1 ? 3e-5 : 1e-5;
    const double rounding = g.type == DataType::bf16 ? 0x1p-8 : g.type == DataType::fp16 ? 0x1p-11 : 0;
    const double smallest = g.type == DataType::fp16 ? 0x1p-25 : 1e-12;
    const double limit = (rounding + arithmetic) * std::sqrt(norm) + smallest * std::sqrt(double(c_.columns));
    if (std::sqrt(difference) > limit) {
      std::snprintf(text, sizeof text, "gradient differs by %.3g, limit %.3g", std::sqrt(difference), limit);
      return text;
    }
    return "";
  }

  const LossEntry& loss_;
  Case c_;
  Matrix x_, t_, g_;
  std::vector<std::int64_t> labels_;
  std::vector<std::int32_t> labels32_;
  std::vector<std::uint8_t> mask_;
  std::vector<float> upstream_[2], weights_;
  SplitShape shape_;
  bool has_labels_ = false;
  int device_ = 0, sm_count_ = 0;
};

}  // namespace split_check

#endif
