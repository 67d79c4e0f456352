// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef PERF_TESTS_HARNESS_PERF_MAIN_HPP
#define PERF_TESTS_HARNESS_PERF_MAIN_HPP

/// \file
/// \brief Runs the cases of a perf test: check, warm up, then alternate call and streaming kernels. A wrong case is not
/// timed and fails the program.

#include "context.hpp"
#include "perf_case.hpp"
#include "run_options.hpp"

#include <vocabloss/error.hpp>
#include <vocabloss/impl/stream/share_of_stream.hpp>

#include <benchmark/benchmark.h>

#include <Kokkos_Core.hpp>

#include <cstdio>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#if !defined(NDEBUG)
#error "perf tests measure Release builds only (CMAKE_BUILD_TYPE=Release)"
#endif

namespace perf {

struct NamedCase {
  std::string name;
  MakeCase make;
};

class Cases {
 public:
  void add(std::string name, MakeCase make) { cases_.push_back({std::move(name), std::move(make)}); }
  const std::vector<NamedCase>& all() const { return cases_; }

 private:
  std::vector<NamedCase> cases_;
};

/// "reverse_kl/bf16/team/rows:4096/columns:32768"
inline std::string case_name(const std::string& loss, vocabloss::DataType type, const CaseSpec& spec) {
  std::string name = loss + "/" + vocabloss::name_of(type) + "/" + std::string(vocabloss::name_of(spec.request.path)) +
                     "/rows:" + std::to_string(spec.rows) + "/columns:" + std::to_string(spec.columns);
  if (spec.request.block_cap > 0) name += "/block_cap:" + std::to_string(spec.request.block_cap);
  return name;
}

/// Adds a case named after what it is.
template <template <class> class Loss, class Logit>
void add_case(Cases& cases, const std::string& loss, const CaseSpec& spec) {
  cases.add(case_name(loss, vocabloss::Precision<Logit>::type, spec), loss_case<Loss, Logit>(spec));
}

/// What happened to a case: nothing (it is correct), refused by the path, or wrong.
enum class Outcome { correct, refused, failed };

/// Makes and checks a case; `note` says what is wrong with it.
inline Outcome prepare(const NamedCase& one, std::unique_ptr<PerfCase>& made, Verdict& verdict, std::string& note) {
  try {
    made = one.make();
    verdict = made->check();
  } catch (const vocabloss::PathRefused& refusal) {
    note = std::string("refused: ") + refusal.what();
    return Outcome::refused;
  } catch (const std::exception& error) {
    note = std::string("died: ") + error.what();
    return Outcome::failed;
  }
  note = verdict.is_correct() ? "" : "wrong: " + verdict.fault;
  return verdict.is_correct() ? Outcome::correct : Outcome::failed;
}

inline void measure(benchmark::State& state, const NamedCase& one, std::size_t flush_bytes, int& failures) {
  std::unique_ptr<PerfCase> made;
  Verdict verdict;
  std::string note;
  const Outcome outcome = prepare(one, made, verdict, note);
  if (outcome != Outcome::correct) {
    failures += outcome == Outcome::failed ? 1 : 0;
    state.SkipWithError(note.c_str());
    return;
  }
  try {
    const Exec exec;
    const vocabloss::Impl::StreamProblem streams = made->streams();
    const auto call = [&] { made->call(); };
    vocabloss::Impl::AlternatingTimer<Exec> timer(exec, flush_bytes);
    timer.warm_up(call, streams);
    for (auto _ : state) state.SetIterationTime(timer.turn(call, streams) * 1e-3);
    const vocabloss::Impl::StreamShare share = timer.result();
    state.counters["median_ms"] = share.ours_ms.median;
    state.counters["min_ms"] = share.ours_ms.min;
    state.counters["max_ms"] = share.ours_ms.max;
    state.counters["bytes"] = static_cast<double>(streams.bytes());
    state.counters["gb_per_s"] = static_cast<double>(streams.bytes()) / share.ours_ms.median * 1e-6;
    state.counters["stream_ms"] = share.stream_ms.median;
    state.counters["share_of_stream"] = share.share;
    state.counters["loss_error"] = verdict.loss_error;
    state.counters["grad_error"] = verdict.grad_error;
    state.SetLabel(made->plan() + " | " + streams.name() + " stream: " + share.variant);
  } catch (const std::exception& error) {
    ++failures;
    state.SkipWithError(error.what());
  }
}

inline int check_all(const Cases& cases) {
  int failures = 0;
  for (const NamedCase& one : cases.all()) {
    std::unique_ptr<PerfCase> made;
    Verdict verdict;
    std::string note;
    const Outcome outcome = prepare(one, made, verdict, note);
    failures += outcome == Outcome::failed ? 1 : 0;
    if (note.empty()) note = "ok";
    std::printf("%-64s loss_error %.2e grad_error %.2e %s\n", one.name.c_str(), verdict.loss_error, verdict.grad_error,
                note.c_str());
  }
  return failures;
}

/// The main program of a perf test.
template <class AddCases>
int perf_main(int argc, char** argv, AddCases&& add_cases) {
  const RunOptions options = parse_run_options(argc, argv);
  benchmark::Initialize(&argc, argv);  // answers --help before Kokkos looks for a device
  Kokkos::ScopeGuard kokkos(argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  Cases cases;
  add_cases(cases, options);
  int failures = 0;
  if (options.check_only) {
    failures = check_all(cases);
  } else {
    // Smoke runs skip the flush: a server's cache can take longer to empty than all cases to run.
    const std::size_t flush_bytes = options.full ? 2 * vocabloss::Impl::last_level_cache_bytes(Exec()) : 0;
    add_context(options, flush_bytes);
    for (const NamedCase& one : cases.all()) {
      benchmark::RegisterBenchmark(
          one.name.c_str(),
          [&one, flush_bytes, &failures](benchmark::State& state) { measure(state, one, flush_bytes, failures); })
          ->Iterations(options.alternations)
          ->UseManualTime()
          ->Unit(benchmark::kMillisecond);
    }
    benchmark::RunSpecifiedBenchmarks();
    benchmark::Shutdown();
  }
  if (failures > 0) std::fprintf(stderr, "%d case(s) failed\n", failures);
  return failures > 0 ? 1 : 0;
}

}  // namespace perf

#endif
