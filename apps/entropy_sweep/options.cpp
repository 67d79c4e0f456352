// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#include "options.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <ostream>
#include <string_view>
#include <vocabloss/tuning/cluster_shape.hpp>

#include "option_values.hpp"

namespace entropy_sweep {
namespace {

constexpr std::int64_t no_limit = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t max_repeat = 1'000'000;

constexpr const char* description =
    "Times and checks the losses of VocabLoss: every combination of the lists given is one case of the sweep.\n"
    "Options marked 'list' take values with commas between them.";

constexpr const char* examples =
    "Examples:\n"
    "  entropy_sweep\n"
    "      the default case: reverse_kl, 4096 x 32768, bf16, path auto\n"
    "  entropy_sweep --loss reverse_kl,cross_entropy --vocab 32768,131072 --path team,naive --check\n"
    "      two losses at two widths, two paths beside each other, results checked against the reference\n"
    "  entropy_sweep --path team --block-cap 1024,4096,16384 --rows 512 --json out.json\n"
    "      how the block cap matters; every number also in out.json\n"
    "  entropy_sweep --input student.safetensors,teacher.safetensors --loss forward_kl,jsd --dump out.safetensors\n"
    "      losses of real logits, written row by row\n"
    "  mpirun -n 4 entropy_sweep --comm mpi --exchange allgather,two_allreduce --vocab 131072\n"
    "      the vocabulary split over four ranks\n"
    "Exit code: 0 all well; 1 a case failed its check or died; 2 bad option or input; 3 a case was refused or out of "
    "memory.\n"
    "Options that begin with --kokkos- are passed on to Kokkos.";

/// The text of every option as typed. CLI11 splits the command line; our own parsers read the values, so that each
/// message names option, value and remedy in one form.
struct RawText {
  std::string loss, vocab, rows, type, path, block_cap, exchange, pass, comm, temperature, logit_scale, teacher_scale,
      jsd_beta, ignore_index, repeat, back_to_back, seed, data, input, memory_limit;
  std::vector<std::string> variants;
};

void add_options(CLI::App& app, RawText& raw, Options& options, const std::string& version) {
  const auto text = [&app](const char* name, std::string& value, const std::string& help, const char* form,
                           const char* fallback, const char* group) {
    auto* option = app.add_option(name, value, help)->type_name(form)->group(group);
    if (*fallback != '\0') option->default_str(fallback);
    return option;
  };
  constexpr const char* sweep = "Sweep (lists)";
  std::string loss_names = all_names<Loss>();
  loss_names.replace(loss_names.find("z_loss"), 0, "\n");  // the only list too long for one line
  text("--loss", raw.loss, loss_names, "LIST", "reverse_kl", sweep);
  text("--vocab", raw.vocab, "vocabulary width, at least 1", "LIST", "32768", sweep);
  text("--rows", raw.rows, "rows (tokens), at least 0", "LIST", "4096", sweep);
  text("--type", raw.type, "type of the logits: " + all_names<ValueType>() + "; with --input the file's", "LIST",
       "bf16", sweep);
  text("--path", raw.path, all_names<Path>(), "LIST", "auto", sweep);
  text("--block-cap", raw.block_cap, "most columns a team holds at once (path team); the plan chooses unless given",
       "LIST", "", sweep);
  text("--exchange", raw.exchange, all_names<Exchange>() + " (comm mpi and nccl)", "LIST", "allgather", sweep);
  app.add_option(
         "--variant", raw.variants,
         "shape of path cluster as its plan prints it, in quotes; may be given several times;\nthe plan chooses "
         "unless given")
      ->type_name("SHAPE")
      ->allow_extra_args(false)
      ->group(sweep);

  constexpr const char* problem = "Problem";
  text("--pass", raw.pass, all_names<Pass>(), "NAME", "forward_backward", problem);
  text("--comm", raw.comm, all_names<Comm>(), "NAME", "self", problem);
  text("--temperature", raw.temperature, "divides both scales, above 0", "X", "1", problem);
  text("--logit-scale", raw.logit_scale, "factor of the logits, above 0", "X", "1", problem);
  text("--teacher-scale", raw.teacher_scale, "factor of the teacher's logits, above 0", "X", "1", problem);
  text("--jsd-beta", raw.jsd_beta, "mixture weight of jsd, 0 to 1", "X", "0.5", problem);
  text("--ignore-index", raw.ignore_index, "rows with this label give loss 0 and gradient 0", "N", "-100", problem);
  text("--seed", raw.seed, "of the synthetic data", "N", "0", problem);
  text("--data", raw.data,
       "synthetic logits: normal, random numbers; peaked, a language model's, a few columns of a\nrow far above the "
       "rest, the teacher alike and the label mostly at a peak; excludes --input",
       "NAME", "normal", problem);
  app.add_flag("--in-place", options.in_place, "write the gradient over the logits")->group(problem);
  text("--input", raw.input,
       "safetensors with student [, teacher, labels, mask] instead of synthetic data;\nexcludes --rows and --vocab",
       "FILE[,FILE]", "", problem);

  constexpr const char* run = "Run";
  text("--repeat", raw.repeat, "timed calls of a case, at least 1", "N", "20", run);
  text("--back-to-back", raw.back_to_back,
       "calls in a row that make one timed call, its time their mean; the cache is\nflushed before the first one only",
       "N", "1", run);
  app.add_flag("--graph", options.graph, "capture the call in a CUDA graph and time its launches")->group(run);
  text("--memory-limit", raw.memory_limit,
       "most bytes that path gather may allocate on a rank; what memory is left unless given", "N", "", run);
  app.add_option("--tune", options.tune,
                 "path auto by measurement: choices are looked up in FILE; what it lacks is measured and\nadded (under "
                 "Open MPI's mpirun: --tune=FILE)")
      ->type_name("FILE")
      ->group(run);
  app.add_flag("--check", options.check, "compare losses and gradients with the reference")->group(run);
  app.add_flag("--quiet", options.quiet, "no table and no progress line; errors still go to stderr")->group(run);

  constexpr const char* output = "Output";
  app.add_option("--json", options.json, "write results and context")->type_name("FILE")->group(output);
  app.add_option("--csv", options.csv, "write results, one line a case")->type_name("FILE")->group(output);
  app.add_option(
         "--dump", options.dump,
         "write losses as safetensors; needs one value of path, type, block cap, exchange,\nvariant, rows and vocab")
      ->type_name("FILE")
      ->group(output);
  app.add_flag("--dump-grad", options.dump_grad, "with --dump: gradients too")->group(output);
  app.set_version_flag("--version", version, "print the version and exit");
  app.allow_extras();  // so that the message lists them in the order typed
}

/// Each shape in the library's own words; one given twice counts once.
std::vector<std::string> parse_variants(const std::vector<std::string>& texts) {
  std::vector<std::string> shapes;
  for (const std::string& text : texts) {
    try {
      const std::string shape = vocabloss::ClusterShape::parse(text).describe();
      if (std::find(shapes.begin(), shapes.end(), shape) == shapes.end()) shapes.push_back(shape);
    } catch (const vocabloss::InvalidArgument& error) {
      throw OptionError(fmt::format("--variant: {}", error.what()));
    }
  }
  return shapes;
}

void read_values(const CLI::App& app, const RawText& raw, Options& options) {
  const auto given = [&app](const char* name) { return app.count(name) > 0; };
  if (const auto unknown = app.remaining(); !unknown.empty()) {
    throw OptionError(fmt::format("'{}' is no option of this program", unknown.front()));
  }
  for (const char* size : {"--rows", "--vocab"}) {
    if (given("--input") && given(size)) {
      throw OptionError(
          fmt::format("{} together with --input: the size is the file's; leave one of the two out", size));
    }
  }
  if (given("--input") && given("--data")) {
    throw OptionError(
        fmt::format("--data {} together with --input: the data are the file's; leave one of the two out", raw.data));
  }
  if (given("--loss")) options.losses = parse_names<Loss>("--loss", raw.loss);
  if (given("--vocab")) options.vocabs = parse_integers("--vocab", raw.vocab, 1, no_limit);
  if (given("--rows")) options.rows = parse_integers("--rows", raw.rows, 0, no_limit);
  if (given("--type")) options.types = parse_names<ValueType>("--type", raw.type);
  if (given("--path")) options.paths = parse_names<Path>("--path", raw.path);
  if (given("--block-cap")) options.block_caps = parse_integers("--block-cap", raw.block_cap, 1, no_limit);
  if (given("--exchange")) options.exchanges = parse_names<Exchange>("--exchange", raw.exchange);
  if (given("--variant")) options.variants = parse_variants(raw.variants);
  if (given("--pass")) options.pass = parse_name<Pass>("--pass", raw.pass);
  if (given("--comm")) options.comm = parse_name<Comm>("--comm", raw.comm);
  if (given("--temperature")) options.temperature = parse_positive("--temperature", raw.temperature);
  if (given("--logit-scale")) options.logit_scale = parse_positive("--logit-scale", raw.logit_scale);
  if (given("--teacher-scale")) options.teacher_scale = parse_positive("--teacher-scale", raw.teacher_scale);
  if (given("--jsd-beta")) options.jsd_beta = parse_fraction("--jsd-beta", raw.jsd_beta);
  if (given("--ignore-index")) {
    options.ignore_index =
        parse_integer("--ignore-index", raw.ignore_index, std::numeric_limits<std::int64_t>::min(), no_limit);
  }
  if (given("--repeat")) options.repeat = static_cast<int>(parse_integer("--repeat", raw.repeat, 1, max_repeat));
  if (given("--back-to-back")) {
    options.back_to_back = static_cast<int>(parse_integer("--back-to-back", raw.back_to_back, 1, max_repeat));
  }
  if (given("--memory-limit")) {
    options.memory_limit = parse_integer("--memory-limit", raw.memory_limit, 1, no_limit);
  }
  if (given("--seed")) options.seed = parse_unsigned("--seed", raw.seed);
  if (given("--data")) options.data = parse_name<Data>("--data", raw.data);
  if (given("--input")) options.inputs = split_list("--input", raw.input);
  options.type_given = given("--type");
}

void check_scales(const Options& options) {
  // Losses work with float32 scales: a quotient that leaves its range would turn every row into NaN.
  const auto check = [&](const char* option, double scale, double factor) {
    const float narrow = static_cast<float>(factor);
    if (std::isfinite(narrow) && narrow > 0) return;
    throw OptionError(
        fmt::format("{} {} over --temperature {} is {}, outside the range of float32; choose values nearer 1", option,
                    scale, options.temperature, factor));
  };
  check("--logit-scale", options.logit_scale, options.student_factor());
  check("--teacher-scale", options.teacher_scale, options.teacher_factor());
}

void check_back_to_back(const Options& options) {
  if (options.back_to_back == 1 || !options.in_place) return;
  throw OptionError(fmt::format(
      "--back-to-back {} with --in-place: calls after the first would read a gradient where the logits were; "
      "leave one of the two out",
      options.back_to_back));
}

void check_sizes(const Options& options) {
  for (const std::int64_t rows : options.rows) {
    for (const std::int64_t vocab : options.vocabs) {
      std::int64_t bytes = 0;
      if (__builtin_mul_overflow(rows, vocab, &bytes) || __builtin_mul_overflow(bytes, std::int64_t{64}, &bytes)) {
        throw OptionError(fmt::format("--rows {} with --vocab {}: more bytes than 64 bits count; choose a smaller size",
                                      rows, vocab));
      }
    }
  }
}

void check_dump(const Options& options) {
  if (options.dump_grad && options.dump.empty()) {
    throw OptionError("--dump-grad: no file to write to; give --dump FILE as well");
  }
  if (options.dump.empty()) return;
  const auto single = [](const char* option, std::size_t count) {
    if (count <= 1) return;
    throw OptionError(
        fmt::format("--dump: {} has {} values, but a file holds one case of each loss; give one value", option, count));
  };
  single("--path", options.paths.size());
  single("--type", options.types.size());
  single("--block-cap", options.block_caps.size());
  single("--exchange", options.exchanges.size());
  single("--variant", options.variants.size());
  single("--rows", options.rows.size());
  single("--vocab", options.vocabs.size());
  if (options.dump_grad && options.pass == Pass::forward) {
    throw OptionError("--dump-grad: --pass forward makes no gradient; use --pass backward or forward_backward");
  }
}

void check_files(const Options& options) {
  namespace fs = std::filesystem;
  if (options.inputs.size() > 2) {
    throw OptionError(
        fmt::format("--input: {} files given; give one file, or two with a comma between them", options.inputs.size()));
  }
  const std::pair<const char*, const std::string&> outputs[] = {
      {"--json", options.json}, {"--csv", options.csv}, {"--dump", options.dump}, {"--tune", options.tune}};
  std::error_code ignored;
  const auto same = [&ignored](const std::string& a, const std::string& b) {
    return fs::path(a).lexically_normal() == fs::path(b).lexically_normal() || fs::equivalent(a, b, ignored);
  };
  for (const auto& [option, file] : outputs) {
    if (file.empty()) continue;
    require_writable(option, file);
    for (const auto& [other_option, other] : outputs) {
      if (&other == &file || other.empty() || !same(file, other)) continue;
      if (fs::exists(file, ignored) && !fs::is_regular_file(file, ignored)) continue;  // /dev/null may be shared
      throw OptionError(fmt::format("{} and {} both name '{}'; give each its own file", option, other_option, file));
    }
    for (const std::string& input : options.inputs) {
      if (same(file, input)) {
        throw OptionError(
            fmt::format("{}: '{}' is an input and would be overwritten; choose another name", option, file));
      }
    }
  }
}

void check_empty_files(const CLI::App& app, const Options& options) {
  const auto check = [&app](const char* option, const std::string& file) {
    if (app.count(option) > 0 && file.empty()) throw OptionError(fmt::format("{}: '' is no file name", option));
  };
  check("--json", options.json);
  check("--csv", options.csv);
  check("--dump", options.dump);
  check("--tune", options.tune);
}

ParseOutcome bad_option(std::ostream& err, std::string_view message) {
  err << "entropy_sweep: error: " << message << "\nRun with --help for the options.\n";
  return {{}, exit_bad_input};
}

}  // namespace

ParseOutcome parse_options(int argc, const char* const* argv, const std::string& version, std::ostream& out,
                           std::ostream& err) {
  std::vector<std::string> arguments;
  for (int i = argc - 1; i >= 1; --i) {  // CLI11 takes a vector last argument first
    if (std::string_view(argv[i]).substr(0, 9) != "--kokkos-") arguments.emplace_back(argv[i]);
  }
  ParseOutcome outcome;
  try {
    CLI::App app(description, "entropy_sweep");
    app.set_help_flag("-h,--help", "print this help and exit");
    app.footer(examples);
    app.get_formatter()->column_width(28);
    RawText raw;
    add_options(app, raw, outcome.options, version);
    try {
      app.parse(std::move(arguments));
    } catch (const CLI::ArgumentMismatch& error) {
      return bad_option(err, fmt::format("{}; give the option once, with one value", error.what()));
    } catch (const CLI::ParseError& error) {
      // CLI11 has a code for each kind of error; the contract has one for all, and zero for help and version.
      if (error.get_exit_code() != 0) return bad_option(err, error.what());
      app.exit(error, out, err);
      return {{}, exit_ok};
    }
    read_values(app, raw, outcome.options);
    check_empty_files(app, outcome.options);
  } catch (const std::exception& error) {
    return bad_option(err, error.what());
  }
  try {
    check_scales(outcome.options);
    check_back_to_back(outcome.options);
    check_sizes(outcome.options);
    check_dump(outcome.options);
    check_files(outcome.options);
  } catch (const std::exception& error) {
    return bad_option(err, error.what());
  }
  return outcome;
}

}  // namespace entropy_sweep
