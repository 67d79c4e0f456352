// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors

// Question: what does exchange in_kernel cost beside the same shard alone?
//
//     mpirun -n 2 exchange_cost [--json FILE] [--rows 4096] [--loss reverse_kl,cross_entropy] [--variant SHAPE]...
//     VOCAB...
//
// In one run the shard alone (path auto, no other rank) and the shard with its exchange take turns, 9 times: each time
// 20 launches back to back between two events, the slowest rank counted. The ratio is the median of the 9 ratios.
// Before that, losses and gradient are compared with those of path team over the exchange allgather, and losses between
// ranks.

#include <vocabloss/comm/mpi.hpp>
#include <vocabloss/impl/stream/timer.hpp>
#include <vocabloss/version.hpp>
#include <vocabloss/vocabloss.hpp>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "harness/inputs.hpp"

namespace {

using namespace vocabloss;
using Exec = Kokkos::Cuda;
using Logit = bfloat16;
using Impl::Spread;
using Logits = perf::Matrix<Exec, Logit>;
using Losses = Kokkos::View<float*, Exec>;

struct Options {
  std::string json, losses = "reverse_kl,soft_cross_entropy,cross_entropy";
  std::int64_t rows = 4096;
  std::vector<std::string> variants;
  std::vector<std::int64_t> vocabs;
};

struct Ranks {
  int rank = 0, size = 1;

  Ranks() {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
  }
  double largest(double value) const {
    MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return value;
  }
};

/// The largest |a - b| beyond `relative` * |b|; infinite where either is NaN.
template <class A>
double difference(const A& a, const A& b, double relative) {
  double worst = 0;
  using Policy = Kokkos::RangePolicy<Exec, Kokkos::IndexType<std::int64_t>>;
  const auto *p = a.data(), *q = b.data();
  Kokkos::parallel_reduce(
      "difference", Policy(0, a.size()),
      KOKKOS_LAMBDA(const std::int64_t k, double& most) {
        const double x = widen(p[k]), y = widen(q[k]);
        const double off = Kokkos::fabs(x - y) - relative * Kokkos::fabs(y);
        if (!(off <= most)) most = off == off ? off : HUGE_VAL;
      },
      Kokkos::Max<double>(worst));
  return worst;
}

void fill_labels(const Kokkos::View<std::int64_t*, Exec>& labels, std::int64_t vocab) {
  Kokkos::parallel_for(
      "labels", labels.extent(0), KOKKOS_LAMBDA(const int i) {
        labels(i) = static_cast<std::int64_t>(perf::hash_of(i) % static_cast<std::uint64_t>(vocab));
      });
}

template <template <class> class Loss>
class Comparison {
 public:
  Comparison(const Ranks& ranks, const char* name, std::int64_t rows, std::int64_t vocab)
      : ranks_(ranks),
        name_(name),
        rows_(rows),
        columns_(vocab / ranks.size),
        mpi_(comm::Mpi::duplicate(MPI_COMM_WORLD)),
        x_("x", rows, columns_),
        t_("t", rows, columns_),
        dx_("dx", rows, columns_),
        losses_("losses", rows),
        labels_("labels", rows),
        timer_(exec_) {
    perf::fill_logits<Exec, Logit>(exec_, x_, 2 * ranks.rank + 1);
    perf::fill_logits<Exec, Logit>(exec_, t_, 2 * ranks.rank + 2);
    fill_labels(labels_, vocab);
    exec_.fence();
  }

  /// One line of JSON. \throws std::runtime_error  where results are wrong
  std::string run(const std::string& variant) {
    const auto whole = batch(VocabPartition::whole(columns_));
    const auto shard = batch({columns_ * ranks_.size, columns_ * ranks_.rank, columns_});
    const Plan<Loss, Logit, Exec> alone(exec_, whole);
    const Plan<Loss, Logit, Exec, comm::Mpi> shared(exec_, mpi_, shard, {},
                                                    {.exchange = Exchange::in_kernel, .variant = variant});
    check(shared, shard);
    const auto time = [&](const auto& plan, const auto& given) {
      const auto ready = [] { MPI_Barrier(MPI_COMM_WORLD); };
      const auto calls = [&] {
        for (int call = 0; call < launches; ++call) plan.forward_backward(exec_, given);
      };
      return ranks_.largest(timer_.milliseconds(ready, calls)) / launches;
    };
    time(alone, whole);
    time(shared, shard);
    std::vector<double> alone_ms, shared_ms, ratios;
    for (int turn = 0; turn < 9; ++turn) {
      alone_ms.push_back(time(alone, whole));
      shared_ms.push_back(time(shared, shard));
      ratios.push_back(shared_ms.back() / alone_ms.back());
    }
    shared.wait(exec_);
    return report(Impl::spread_of(alone_ms), Impl::spread_of(shared_ms), Impl::spread_of(ratios),
                  alone.launch().describe(), shared.launch().describe(), shared.workspace_bytes());
  }

 private:
  static constexpr int launches = 20;

  Batch<Logit, Exec> batch(const VocabPartition& partition) const {
    Batch<Logit, Exec> made;
    made.logits(x_).losses(losses_).gradient(dx_).partition(partition);
    if (Loss<float>::streams == 2) made.teacher(t_);
    if (Loss<float>::needs_label) made.labels(labels_);
    return made;
  }

  template <class Shared>
  void check(const Shared& shared, const Batch<Logit, Exec>& shard) {
    const Logits expected_dx("expected", rows_, columns_);
    const Losses expected("expected", rows_);
    Batch<Logit, Exec> other = shard;
    other.losses(expected).gradient(expected_dx);
    const Plan<Loss, Logit, Exec, comm::Mpi> allgather(exec_, mpi_, other, {}, {.path = Path::team});
    allgather.forward_backward(exec_, other);
    perf::fill_with_nan<Exec, Logit>(exec_, dx_);
    Kokkos::deep_copy(exec_, losses_, NAN);
    shared.forward_backward(exec_, shard);
    shared.wait(exec_);
    // Each is within its own limit of double (unit_tests/gpu): 3e-6 of a loss, half a unit and 1e-6 of p_j's terms.
    const double loss = ranks_.largest(difference(losses_, expected, 6e-6));
    const double gradient = ranks_.largest(difference(dx_, expected_dx, 0x1p-7));  // two units of bf16
    auto mine = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), losses_);
    std::vector<float> first(mine.data(), mine.data() + rows_);
    MPI_Bcast(first.data(), static_cast<int>(rows_), MPI_FLOAT, 0, MPI_COMM_WORLD);
    double differs = 0;
    for (std::int64_t i = 0; i < rows_; ++i) differs += first[i] == mine(i) ? 0 : 1;
    differs = ranks_.largest(differs);
    if (!(loss <= 6e-6) || !(gradient <= 1e-7) || differs != 0) {
      throw std::runtime_error(std::string(name_) + ": losses are off by " + std::to_string(loss) + ", gradients by " +
                               std::to_string(gradient) + ", losses of " + std::to_string(differs) +
                               " rows differ between ranks");
    }
  }

  std::string report(const Spread& alone, const Spread& shared, const Spread& ratio, const std::string& alone_plan,
                     const std::string& plan, std::size_t workspace) const {
    const auto spread = [](const Spread& s) {
      char text[120];
      std::snprintf(text, sizeof text, "{\"median\": %.6g, \"min\": %.6g, \"max\": %.6g}", s.median, s.min, s.max);
      return std::string(text);
    };
    const std::int64_t bytes = rows_ * columns_ * 2 * (Loss<float>::streams + 1);
    std::ostringstream line;
    line << "{\"loss\": \"" << name_ << "\", \"path\": \"cluster\", \"exchange\": \"in_kernel\", \"comm\": \"mpi\", "
         << "\"pass\": \"forward_backward\", \"rows\": " << rows_ << ", \"vocab\": " << columns_ * ranks_.size
         << ", \"columns\": " << columns_ << ", \"ranks\": " << ranks_.size << ", \"type\": \"bf16\", \"plan\": \""
         << plan << "\", \"plan_alone\": \"" << alone_plan << "\", \"ms\": " << spread(shared)
         << ", \"ms_alone\": " << spread(alone) << ", \"ratio_to_alone\": " << spread(ratio) << ", \"bytes\": " << bytes
         << ", \"gb_per_s\": " << double(bytes) / shared.median / 1e6 << ", \"workspace_bytes\": " << workspace
         << ", \"status\": \"ok\"}";
    return line.str();
  }

  const Exec exec_{};
  const Ranks& ranks_;
  const char* name_;
  std::int64_t rows_, columns_;
  comm::Mpi mpi_;
  Logits x_, t_, dx_;
  Losses losses_;
  Kokkos::View<std::int64_t*, Exec> labels_;
  Impl::DeviceTimer<Exec> timer_;
};

Options parse(int argc, char** argv) {
  Options options;
  for (int k = 1; k < argc; ++k) {
    const std::string word = argv[k];
    const auto value = [&] {
      if (k + 1 == argc) throw std::invalid_argument(word + " needs a value");
      return std::string(argv[++k]);
    };
    if (word == "--json") {
      options.json = value();
    } else if (word == "--rows") {
      options.rows = std::stoll(value());
    } else if (word == "--loss") {
      options.losses = value();
    } else if (word == "--variant") {
      options.variants.push_back(value());
    } else {
      options.vocabs.push_back(std::stoll(word));
    }
  }
  if (options.vocabs.empty()) throw std::invalid_argument("no vocabulary is given");
  if (options.variants.empty()) options.variants.push_back("");
  return options;
}

int run(const Options& options) {
  const Ranks ranks;
  std::vector<std::string> lines;
  int code = 0;
  const auto add = [&](auto& comparison) {
    for (const std::string& variant : options.variants) {
      try {
        lines.push_back(comparison.run(variant));
        if (ranks.rank == 0) std::printf("%s\n", lines.back().c_str());
      } catch (const PathRefused& refused) {
        if (ranks.rank == 0) std::printf("refused: %s\n", refused.what());
      } catch (const std::exception& error) {
        std::fprintf(stderr, "rank %d: failed: %s\n", ranks.rank, error.what());
        code = 1;
      }
      std::fflush(stdout);
    }
  };
  std::istringstream names(options.losses);
  for (std::string name; std::getline(names, name, ',');) {
    for (const std::int64_t vocab : options.vocabs) {
      if (name == "reverse_kl") {
        Comparison<loss::ReverseKl> one(ranks, "reverse_kl", options.rows, vocab);
        add(one);
      } else if (name == "soft_cross_entropy") {
        Comparison<loss::SoftCrossEntropy> one(ranks, "soft_cross_entropy", options.rows, vocab);
        add(one);
      } else if (name == "cross_entropy") {
        Comparison<loss::CrossEntropy> one(ranks, "cross_entropy", options.rows, vocab);
        add(one);
      } else {
        throw std::invalid_argument("--loss knows reverse_kl, soft_cross_entropy and cross_entropy, not " + name);
      }
    }
  }
  if (ranks.rank == 0 && !options.json.empty()) {
    std::FILE* file = std::fopen(options.json.c_str(), "w");
    if (!file) throw std::runtime_error("cannot write " + options.json);
    char date[40];
    const std::time_t now = std::time(nullptr);
    std::strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", std::gmtime(&now));
    std::fprintf(file, "{\"context\": {\"card\": \"%s\", \"date\": \"%s\", \"git\": \"%s\"},\n \"results\": [\n  ",
                 Kokkos::Cuda().cuda_device_prop().name, date, git_revision);
    for (std::size_t k = 0; k < lines.size(); ++k) std::fprintf(file, "%s%s", k ? ",\n  " : "", lines[k].c_str());
    std::fprintf(file, "]}\n");
    std::fclose(file);
  }
  return code;
}

/// The ranks of a host take its devices in turn.
int device() {
  MPI_Comm host = MPI_COMM_NULL;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
  int place = 0, devices = 0;
  MPI_Comm_rank(host, &place);
  MPI_Comm_free(&host);
  return cudaGetDeviceCount(&devices) == cudaSuccess && devices > 0 ? place % devices : 0;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int code = 2;
  try {
    const Options options = parse(argc, argv);
    const Kokkos::ScopeGuard kokkos(Kokkos::InitializationSettings().set_device_id(device()));
    code = run(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "exchange_cost: %s\n", error.what());
    MPI_Abort(MPI_COMM_WORLD, code);
  }
  MPI_Finalize();
  return code;
}
