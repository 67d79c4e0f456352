// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_IMPL_TUNING_TUNER_HPP
#define VOCABLOSS_IMPL_TUNING_TUNER_HPP

/// \file
/// \brief Times the candidates of a batch in alternation and picks the fastest. tuning/tune.hpp is the way in.

#include <vocabloss/batch.hpp>
#include <vocabloss/error.hpp>
#include <vocabloss/impl/loss_dispatch.hpp>
#include <vocabloss/impl/stream/cache_flush.hpp>
#include <vocabloss/impl/stream/timer.hpp>
#include <vocabloss/impl/tuning/candidates.hpp>
#include <vocabloss/impl/tuning/private_batch.hpp>
#include <vocabloss/impl/tuning/together.hpp>
#include <vocabloss/plan.hpp>
#include <vocabloss/tuning/tuning.hpp>

#include <Kokkos_Core.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

namespace vocabloss::Impl {

/// What the times of a run hold for.
template <class Exec>
std::string card_of(const Exec& exec) {
#if defined(KOKKOS_ENABLE_CUDA)
  if constexpr (streams_on_cuda<Exec>) return exec.cuda_device_prop().name;
#endif
  return processor(exec.concurrency());
}

template <template <class> class Loss, class Logit, class Exec, class Comm>
class Tuner {
 public:
  using Timed = Plan<Loss, Logit, Exec, Comm>;
  using Options = typename Timed::Options;

  Tuner(const Exec& exec, Comm& comm, const Batch<Logit, Exec>& batch, Pass pass, const Options& options,
        const TuneOptions& how)
      : exec_(exec), together_(exec, comm), caller_(batch), pass_(pass), options_(options), how_(how), timer_(exec) {}

  Tuning run() {
    together_.in_step([&] {
      problem_ = caller_.problem();
      validate_options(options_);
      expects(how_.repeats >= 1, [&] { return "TuneOptions::repeats must be 1 or more, got " + text(how_.repeats); });
      expects(how_.too_slow >= 1,
              [&] { return "TuneOptions::too_slow must be 1 or more, got " + text(how_.too_slow); });
    });
    const TuningKey key = learn_key();
    if (std::optional<TunedChoice> known = known_to_first(key)) {
      if (how_.record) how_.record->add(key, *known);
      return {known->request, known->plan, known->time, true, {}};
    }
    together_.in_step([&] {
      private_.emplace(exec_, caller_, pass_);
      flush_.emplace(exec_, is_small_ ? 0 : 2 * last_level_cache_bytes(exec_));
    });
    for (const CandidateGroup& group : candidate_groups(facts_, how_.base)) try_group(group);
    alternate();
    Tuning tuning = chosen();
    if (how_.record) how_.record->add(key, {tuning.request, tuning.plan, tuning.time});
    return tuning;
  }

 private:
  struct Candidate {
    TunedCandidate facts;
    std::unique_ptr<Timed> plan;  ///< null: not timed further
    std::vector<double> ms;
    double first_ms = 0;
  };

  template <class Number>
  static std::string text(Number number) {
    return std::to_string(number);
  }

  // ---- what is asked for ----

  TuningKey learn_key() {
    dispatch_loss<Loss, typename Timed::Real>(options_, [&](const auto& algebra) {
      using Which = std::decay_t<decltype(algebra)>;
      loss_name_ = demangled(typeid(Which).name());
      facts_.streams = Which::streams;
      facts_.rounds = Which::rounds;
    });
    facts_.columns = static_cast<std::int64_t>(together_.largest(static_cast<double>(problem_.partition.columns)));
    facts_.logits = problem_.logits;
    facts_.ranks = together_.ranks();
    facts_.exchange = how_.exchange;
    const double bytes = static_cast<double>(problem_.rows * facts_.columns * size_of(problem_.logits));
    is_small_ = bytes < (1 << 20);

    TuningKey key{.card = together_.text_of_first(card_of(exec_)), .loss = loss_name_, .pass = pass_};
    key.rows = problem_.rows;
    key.vocab = problem_.partition.vocab;
    key.columns = facts_.columns;
    key.ranks = facts_.ranks;
    if (!together_.alone()) {
      key.communicator = together_.text_of_first(together_.comm().describe(exec_));
      key.exchange = how_.exchange ? std::string(name_of(*how_.exchange)) : "any";
    }
    key.logits = problem_.logits;
    key.teacher = problem_.teacher;
    if (pass_ != Pass::forward) {  // which writes none
      key.gradient = problem_.gradient;
      key.accumulate = problem_.accumulate;
      key.in_place = problem_.in_place;
    }
    key.aligned = !(together_.largest(PrivateBatch<Logit, Exec>::is_aligned(caller_) ? 0 : 1) > 0);
    return key;
  }

  /// The first rank's record speaks for all: others need none.
  std::optional<TunedChoice> known_to_first(const TuningKey& key) const {
    std::optional<TunedChoice> mine;
    if (how_.record && together_.rank() == 0) mine = how_.record->find(key);
    const TunedChoice told = mine.value_or(TunedChoice{});
    const PlanRequest& request = told.request;
    const std::vector<double> numbers =
        together_.of_first({mine ? 1.0 : 0.0, double(static_cast<int>(request.path)), double(request.block_cap),
                            double(static_cast<int>(request.exchange)), double(request.block_rows), told.time.median_ms,
                            told.time.min_ms, told.time.max_ms});
    if (numbers[0] == 0) return std::nullopt;
    TunedChoice known;
    known.request = how_.base;
    known.request.path = static_cast<Path>(static_cast<int>(numbers[1]));
    known.request.block_cap = static_cast<int>(numbers[2]);
    known.request.exchange = static_cast<Exchange>(static_cast<int>(numbers[3]));
    known.request.block_rows = static_cast<std::int64_t>(numbers[4]);
    known.request.variant = together_.text_of_first(request.variant);
    known.plan = together_.text_of_first(told.plan);
    known.time = {numbers[5], numbers[6], numbers[7]};
    return known;
  }

  // ---- candidates ----

  void try_group(const CandidateGroup& group) {
    for (std::size_t k = 0; k < group.size(); ++k) {
      candidates_.emplace_back();
      Candidate& candidate = candidates_.back();
      candidate.facts.request = group[k];
      candidate.facts.plan = describe_request(group[k], facts_.ranks);
      const bool runs = prepare(candidate);
      if (!runs && k == 0) return;  // the others would be refused for the same reason
    }
  }

  /// Makes the plan and calls it twice; false where it is refused. What is refused, is refused on all ranks.
  bool prepare(Candidate& candidate) {
    try {
      candidate.plan =
          std::make_unique<Timed>(exec_, together_.comm(), private_->batch(), options_, candidate.facts.request);
      candidate.facts.plan = candidate.plan->launch().describe();
      if (const Candidate* other = same_launch(candidate)) {
        candidate.facts.reason = "the same launch as another candidate: " + other->facts.plan;
        candidate.plan.reset();
        return true;
      }
      together_.in_step([&] {
        private_->restore(exec_);
        if (pass_ == Pass::backward) candidate.plan->forward(exec_, private_->batch());
        call(candidate);
        candidate.plan->wait(exec_);
      });
    } catch (const PathRefused& error) {
      return give_up(candidate, error.what());
    } catch (const OutOfMemory& error) {
      return give_up(candidate, error.what());
    } catch (const std::bad_alloc& error) {
      return give_up(candidate, error.what());
    }
    candidate.first_ms = timed(candidate);
    drop_slow_ones();
    return true;
  }

  static bool give_up(Candidate& candidate, const std::string& why) {
    candidate.plan.reset();
    candidate.facts.reason = why;
    return false;
  }

  /// The candidate that launches alike on every rank: each sees its own shard.
  const Candidate* same_launch(const Candidate& candidate) const {
    const Candidate* found = nullptr;
    for (const Candidate& other : candidates_) {
      if (&other == &candidate || other.first_ms == 0) continue;
      const bool is_same =
          !other.plan ? other.facts.plan == candidate.facts.plan : other.plan->launch() == candidate.plan->launch();
      if (!(together_.largest(is_same ? 0 : 1) > 0) && !found) found = &other;
    }
    return found;
  }

  /// Their workspaces make room for the next ones.
  void drop_slow_ones() {
    double best = 0;
    for (const Candidate& candidate : candidates_) {
      if (candidate.first_ms > 0 && (best == 0 || candidate.first_ms < best)) best = candidate.first_ms;
    }
    for (Candidate& candidate : candidates_) {
      if (!candidate.plan || candidate.first_ms <= how_.too_slow * best) continue;
      candidate.plan.reset();
      candidate.ms = {candidate.first_ms};
      candidate.facts.reason =
          "too slow: a call took " + text(candidate.first_ms) + " ms, the fastest candidate's " + text(best) + " ms";
    }
  }

  // ---- times ----

  void call(const Candidate& candidate) const { candidate.plan->run(exec_, private_->batch(), pass_); }

  /// Of one call, in milliseconds: of the slowest rank. All candidates find the same cache and the same buffers.
  double timed(const Candidate& candidate) {
    const auto before = [&] {
      private_->restore(exec_);
      if constexpr (streams_on_cuda<Exec>) {
        together_.meet();
        flush_->enqueue();  // hides what ranks lose by starting apart
      } else {
        flush_->enqueue();
        exec_.fence("VocabLoss::tune");
        together_.meet();
      }
    };
    const double ms = timer_.milliseconds(before, [&] { call(candidate); });
    candidate.plan->wait(exec_);  // ends with an error where a rank was lost
    return together_.largest(ms);
  }

  void alternate() {
    for (int turn = 0; turn < how_.repeats; ++turn) {
      for (Candidate& candidate : candidates_) {
        if (candidate.plan) candidate.ms.push_back(timed(candidate));
      }
    }
  }

  Tuning chosen() const {
    Tuning tuning;
    const TunedCandidate* best = nullptr;
    for (const Candidate& candidate : candidates_) {
      tuning.candidates.push_back(candidate.facts);
      TunedCandidate& facts = tuning.candidates.back();
      if (candidate.ms.empty()) continue;
      const Spread spread = spread_of(candidate.ms);
      facts.time = TunedTime{spread.median, spread.min, spread.max};
      facts.calls = static_cast<int>(candidate.ms.size());
    }
    for (const TunedCandidate& facts : tuning.candidates) {
      const bool counts = facts.time && facts.reason.empty();
      if (counts && (!best || facts.time->median_ms < best->time->median_ms)) best = &facts;
    }
    if (!best) throw PathRefused("vocabloss: nothing to choose from: " + all_reasons(tuning));
    tuning.request = best->request;
    tuning.plan = best->plan;
    tuning.time = *best->time;
    return tuning;
  }

  static std::string all_reasons(const Tuning& tuning) {
    std::string reasons;
    for (const TunedCandidate& facts : tuning.candidates) {
      reasons += (reasons.empty() ? "" : "; ") + facts.plan + ": " + facts.reason;
    }
    return reasons;
  }

  Exec exec_;
  Together<Exec, Comm> together_;
  const Batch<Logit, Exec>& caller_;
  Pass pass_;
  Options options_;
  TuneOptions how_;
  DeviceTimer<Exec> timer_;
  Problem problem_;
  CandidateFacts facts_;
  std::string loss_name_;
  bool is_small_ = false;
  std::optional<PrivateBatch<Logit, Exec>> private_;
  std::optional<CacheFlush<Exec>> flush_;
  std::vector<Candidate> candidates_;
};

}  // namespace vocabloss::Impl

#endif
