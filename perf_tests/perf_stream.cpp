// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors

// Question: how fast does this machine move data, and which variant of the streaming kernel shows it? The ceiling of
// every other perf test, checked and timed like them; share_of_stream near 1 marks the variant that they are compared
// with.

#include "harness/perf_main.hpp"

namespace {

using namespace vocabloss;
using Words = Kokkos::View<std::uint32_t*, perf::Exec::memory_space>;

/// The words that were not copied as they should be: the exclusive or of all streams, or the first of them where whole
/// pieces travel through shared memory.
std::int64_t count_wrong(const Words& written, const Words (&read)[3], int reads) {
  const Words first = read[0], second = read[1], third = read[2];
  std::int64_t wrong = 0;
  Kokkos::parallel_reduce(
      "VocabLoss::perf::count_wrong", Kokkos::RangePolicy<perf::Exec>(0, written.size()),
      KOKKOS_LAMBDA(const std::int64_t k, std::int64_t& sum) {
        std::uint32_t expected = first(k);
        if (reads > 1) expected ^= second(k);
        if (reads > 2) expected ^= third(k);
        sum += written(k) == expected ? 0 : 1;
      },
      wrong);
  return wrong;
}

void fill(const Words& words, std::uint64_t seed) {
  Kokkos::parallel_for(
      "VocabLoss::perf::fill", Kokkos::RangePolicy<perf::Exec>(0, words.size()),
      KOKKOS_LAMBDA(const std::int64_t k) { words(k) = static_cast<std::uint32_t>(perf::hash_of((seed << 40) + k)); });
}

class StreamCase : public perf::PerfCase {
 public:
  StreamCase(std::int64_t rows, std::int64_t columns, int reads, bool writes, const Impl::StreamVariant& variant)
      : reads_(reads), variant_(variant) {
    problem_.rows = rows;
    problem_.columns = columns;
    for (int r = 0; r < reads; ++r) {
      read_[r] = Words("VocabLoss::perf::read", rows * columns);
      fill(read_[r], r + 1);
      problem_.add_read({read_[r].data(), DataType::fp32, columns});
    }
    if (!writes) return;
    written_ = Words("VocabLoss::perf::written", rows * columns);
    problem_.write = {written_.data(), DataType::fp32, columns};
  }

  perf::Verdict check() override {
    fill(written_, 9);
    call();
    Kokkos::fence();
    const bool mixes = variant_.kind != Impl::StreamVariant::Kind::bulk;
    const std::int64_t wrong = written_.size() > 0 ? count_wrong(written_, read_, mixes ? reads_ : 1) : 0;
    perf::Verdict verdict;
    if (wrong > 0) verdict.fault = std::to_string(wrong) + " words are not what was read";
    return verdict;
  }
  void call() const override { Impl::stream(perf::Exec(), problem_, variant_); }
  Impl::StreamProblem streams() const override { return problem_; }
  std::string plan() const override { return variant_.name(); }

 private:
  Words read_[3], written_;
  int reads_;
  Impl::StreamVariant variant_;
  Impl::StreamProblem problem_;
};

void add_cases(perf::Cases& cases, const perf::RunOptions& options) {
  const std::int64_t columns = options.full ? 16384 : 4096;  // as many bytes as 32768 columns of bf16
  const std::int64_t rows = options.rows(2 * columns, perf::on_device);
  for (const Impl::StreamVariant& variant : Impl::stream_variants(perf::Exec())) {
    for (const bool writes : {false, true}) {
      for (int reads = 1; reads <= 3; ++reads) {
        const std::string name = "stream/" + std::to_string(reads) + "R" + (writes ? "1W/" : "0W/") + variant.name();
        cases.add(name, [=] { return std::make_unique<StreamCase>(rows, columns, reads, writes, variant); });
      }
    }
  }
}

}  // namespace

int main(int argc, char** argv) { return perf::perf_main(argc, argv, add_cases); }
