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
#include <vector>

#include "cases.hpp"
#include "device_context.hpp"
#include "dump.hpp"
#include "input.hpp"
#include "options.hpp"
#include "progress.hpp"
#include "report.hpp"
#include "runner.hpp"
#include "table.hpp"

namespace {

using namespace entropy_sweep;

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

int run(const Options& options, const InputData* input) {
  const Sweep sweep = make_sweep(options, input != nullptr ? std::optional(input->shape()) : std::nullopt);
  for (const std::string& note : sweep.notes) std::cerr << "entropy_sweep: " << note << "\n";

  std::optional<Dump> dump;
  if (!options.dump.empty()) {
    const InputShape shape = input != nullptr ? input->shape() : InputShape{options.rows[0], options.vocabs[0]};
    dump.emplace(shape.rows, shape.vocab);
  }
  Runner runner(options, input, dump ? &*dump : nullptr);
  std::vector<Result> results;
  {
    Progress progress(stderr, sweep.cases.size(), !options.quiet);
    for (const Case& one : sweep.cases) {
      progress.start(describe(one));
      results.push_back(runner.run(one));
    }
  }

  const Context context = current_context();
  if (!options.quiet) std::cout << to_table(context, results) << std::flush;
  if (dump) write_dump(options, *dump, results);
  if (!options.json.empty()) write_json(options.json, context, results);
  if (!options.csv.empty()) write_csv(options.csv, context, results);
  return exit_code_of(results);
}

}  // namespace

int main(int argc, char* argv[]) {
  const ParseOutcome parsed = parse_options(argc, argv, version_text(), std::cout, std::cerr);
  if (parsed.exit_code) return *parsed.exit_code;
  try {
    std::optional<InputData> input;
    if (!parsed.options.inputs.empty()) input.emplace(parsed.options);  // before Kokkos starts: bad files end at once
    setenv("KOKKOS_DISABLE_WARNINGS", "true", 0);  // its advice on OpenMP's environment; whoever set it keeps it
    const Kokkos::ScopeGuard kokkos(argc, argv);
    return run(parsed.options, input ? &*input : nullptr);
  } catch (const SafetensorsError& error) {
    std::cerr << "entropy_sweep: error: " << error.what() << "\n";
    return exit_bad_input;
  } catch (const std::exception& error) {
    std::cerr << "entropy_sweep: error: " << error.what() << "\n";
    return exit_failed;
  }
}
