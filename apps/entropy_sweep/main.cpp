// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors

/// \file
/// entropy_sweep: options, input, the sweep, the reports. README.md beside this file tells how to use it.

#include <Kokkos_Core.hpp>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>
#include <vocabloss/tuning/record.hpp>

#include "cases.hpp"
#include "communicators.hpp"
#include "device_context.hpp"
#include "dump.hpp"
#include "input.hpp"
#include "options.hpp"
#include "progress.hpp"
#include "ranks.hpp"
#include "report.hpp"
#include "runner.hpp"
#include "table.hpp"

namespace {

using namespace entropy_sweep;

/// --comm as typed, before options are parsed: messages about options come from the first rank alone, so ranks come
/// first. A word that is no communicator is for the parser to refuse.
Comm comm_of(int argc, char** argv) {
  Comm comm = Comm::self;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    std::string_view value;
    if (word == "--comm" && i + 1 < argc) value = argv[i + 1];
    if (word.substr(0, 7) == "--comm=") value = word.substr(7);
    if (const auto named = from_name<Comm>(value)) comm = *named;
  }
  return comm;
}

/// One exit code for all where a rank cannot go on, with the texts of all ranks on the first one's stderr; nothing
/// where all can. Collective.
std::optional<int> stop_together(const Ranks& ranks, const std::optional<int>& code, const std::string& said) {
  if (!(ranks.largest(code ? 1 : 0) > 0)) return std::nullopt;
  const std::string text = common_text(ranks.all_texts(said));
  if (ranks.is_first()) std::cerr << text << std::flush;
  return ranks.common_exit_code(code.value_or(exit_ok));
}

std::optional<int> open_input(const Ranks& ranks, const Options& options, std::optional<InputData>& input) {
  std::optional<int> code;
  std::string said;
  try {
    if (!options.inputs.empty()) input.emplace(options);
  } catch (const std::exception& error) {
    code = dynamic_cast<const SafetensorsError*>(&error) != nullptr ? exit_bad_input : exit_failed;
    said = std::string("entropy_sweep: error: ") + error.what() + "\n";
  }
  return stop_together(ranks, code, said);
}

/// On the first rank alone, which speaks for all.
std::optional<int> open_record(const Ranks& ranks, const Options& options,
                               std::optional<vocabloss::TuningRecord>& record) {
  std::optional<int> code;
  std::string said;
  try {
    if (!options.tune.empty() && ranks.is_first()) record = vocabloss::TuningRecord::read(options.tune);
  } catch (const vocabloss::TuningRecordError& error) {
    code = exit_bad_input;
    said = std::string("entropy_sweep: error: --tune: ") + error.what() + "\n";
  }
  return stop_together(ranks, code, said);
}

/// Ranks that were started with other options or files would wait for each other.
std::optional<int> compare_sweeps(const Ranks& ranks, const Options& options, const Sweep& sweep) {
  std::ostringstream mine;
  for (const Case& one : sweep.cases) mine << describe(one) << ", " << to_name(one.pass) << "; ";
  mine << "repeat " << options.repeat << ", back to back " << options.back_to_back << ", check " << options.check
       << ", in place " << options.in_place << ", graph " << options.graph << ", dump " << !options.dump.empty()
       << options.dump_grad << ", seed " << options.seed << ", data " << to_name(options.data) << ", tune "
       << !options.tune.empty();
  const std::vector<std::string> all = ranks.all_texts(mine.str());
  std::optional<int> code;
  std::string said;
  if (all[static_cast<std::size_t>(ranks.rank())] != all[0]) {
    code = exit_bad_input;
    said = "entropy_sweep: error: this rank was asked for \"" + mine.str() + "\", but rank 0 for \"" + all[0] +
           "\": give all ranks the same options, and files of one shape\n";
  }
  return stop_together(ranks, code, said);
}

/// Ranks of a host take its devices in turn. By way of the environment, which leaves Kokkos' own options to the user.
void choose_device(const Ranks& ranks) {
  const int devices = ranks.size() > 1 ? Kokkos::num_devices() : 0;
  if (devices > 0) {
    setenv("KOKKOS_DEVICE_ID", std::to_string(ranks.device_of(devices)).c_str(), 0);
  }
  setenv("KOKKOS_DISABLE_WARNINGS", "true", 0);  // its advice on OpenMP's environment; whoever set it keeps it
}

void write_dump(const Options& options, const Dump& dump, const std::vector<Result>& results) {
  for (const Result& result : results) {
    // A failed check has its values; a refused case has none, and a file without them would look complete.
    if (result.ms) continue;
    std::cerr << "entropy_sweep: " << options.dump << " is not written: " << describe(result.point) << ": "
              << result.status << "\n";
    return;
  }
  dump.write(options.dump);
}

/// Of the first rank alone: table and files.
int report(const Options& options, const Dump* dump, const std::vector<Result>& results) {
  try {
    Context context = current_context();
    context.back_to_back = options.back_to_back;
    context.graph = options.graph;
    if (!options.quiet) std::cout << to_table(context, results) << std::flush;
    if (dump != nullptr) write_dump(options, *dump, results);
    if (!options.json.empty()) write_json(options.json, context, results);
    if (!options.csv.empty()) write_csv(options.csv, context, results);
  } catch (const std::exception& error) {
    std::cerr << "entropy_sweep: error: " << error.what() << "\n";
    return exit_failed;
  }
  return exit_code_of(results);
}

int run(const Options& options, const Ranks& ranks, const Sweep& sweep, const InputData* input,
        vocabloss::TuningRecord* record) {
  Communicators communicators(options.comm, ranks);
  std::optional<Dump> dump;
  if (!options.dump.empty() && ranks.is_first()) {
    const InputShape shape = input != nullptr ? input->shape() : InputShape{options.rows[0], options.vocabs[0]};
    dump.emplace(shape.rows, shape.vocab);
  }
  std::vector<Result> results;
  try {
    Runner runner(options, {&ranks, &communicators}, input, dump ? &*dump : nullptr, record);
    Progress progress(stderr, sweep.cases.size(), !options.quiet && ranks.is_first());
    for (const Case& one : sweep.cases) {
      progress.start(describe(one));
      results.push_back(runner.run(one));
    }
  } catch (const std::exception& error) {
    if (ranks.size() > 1) ranks.abort(exit_failed, error.what());
    throw;
  }
  const int code = ranks.is_first() ? report(options, dump ? &*dump : nullptr, results) : exit_code_of(results);
  return ranks.common_exit_code(code);
}

int run_program(Ranks& ranks, int argc, char** argv) {
  std::ostringstream out, err;
  const ParseOutcome parsed = parse_options(argc, argv, version_text(), out, err);
  if (ranks.is_first()) std::cout << out.str() << std::flush;  // help and version
  if (const auto code = stop_together(ranks, parsed.exit_code, err.str())) return *code;
  const Options& options = parsed.options;

  std::optional<InputData> input;  // before Kokkos starts: bad files end at once
  if (const auto code = open_input(ranks, options, input)) return *code;
  std::optional<vocabloss::TuningRecord> record;
  if (const auto code = open_record(ranks, options, record)) return *code;
  const Sweep sweep = make_sweep(options, input ? std::optional(input->shape()) : std::nullopt);
  if (const auto code = compare_sweeps(ranks, options, sweep)) return *code;
  for (const std::string& note : sweep.notes) {
    if (ranks.is_first()) std::cerr << "entropy_sweep: " << note << "\n";
  }

  choose_device(ranks);
  const Kokkos::ScopeGuard kokkos(argc, argv);
  return run(options, ranks, sweep, input ? &*input : nullptr, record ? &*record : nullptr);
}

}  // namespace

int main(int argc, char* argv[]) {
  try {
    Ranks ranks(comm_of(argc, argv), argc, argv);
    return run_program(ranks, argc, argv);
  } catch (const std::exception& error) {
    std::cerr << "entropy_sweep: error: " << error.what() << "\n";
    return exit_failed;
  }
}
