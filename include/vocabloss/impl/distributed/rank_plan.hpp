// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_IMPL_DISTRIBUTED_RANK_PLAN_HPP
#define VOCABLOSS_IMPL_DISTRIBUTED_RANK_PLAN_HPP

/// \file
/// \brief What a Plan leaves to the ranks: agreement, the shards, the choice of exchange, and the run. The only place
/// where losses and communicators meet.

#include <vocabloss/comm/concept.hpp>
#include <vocabloss/comm/self.hpp>
#include <vocabloss/impl/checked_options.hpp>
#include <vocabloss/impl/distributed/agreement.hpp>
#include <vocabloss/impl/distributed/allgather_exchange.hpp>
#include <vocabloss/impl/distributed/gather_path.hpp>
#include <vocabloss/impl/distributed/in_kernel_absent.hpp>
#include <vocabloss/impl/distributed/naive_over_ranks.hpp>
#include <vocabloss/impl/distributed/peer_memory.hpp>
#include <vocabloss/impl/distributed/shards.hpp>
#include <vocabloss/impl/distributed/staged_run.hpp>
#include <vocabloss/impl/distributed/stages.hpp>
#include <vocabloss/impl/distributed/two_allreduce_exchange.hpp>

#include <Kokkos_Core.hpp>
#include <Kokkos_Profiling_ScopedRegion.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <typeinfo>
#include <vector>

// Defined for users of the target VocabLoss::cuda, whose archive holds these kernels.
#if defined(VOCABLOSS_WITH_CUDA_PATHS) && defined(__CUDACC__)
#include <vocabloss/impl/distributed/in_kernel_path.cuh>
#endif

namespace vocabloss::Impl {

template <class Logit, class Exec, class Comm>
class RankPlan {
 public:
  using Real = Accumulate<Logit>;
  /// Whether there can be other ranks at all: otherwise no kernel of this folder is compiled.
  static constexpr bool can_share = !std::is_same_v<Comm, comm::Self>;
  static_assert(comm::VocabCommunicator<Comm, Exec>, "Comm does not satisfy comm::VocabCommunicator");

  RankPlan() = default;
  explicit RankPlan(Comm& comm) : comm_(&comm) {}

  bool alone() const { return !can_share || !comm_ || comm_->size() == 1; }
  /// Whether statistics must be kept in memory within a forward + backward: between the kernels of a call.
  bool keeps_statistics(const LaunchPlan& plan) const { return !alone() && !is_in_kernel(plan); }

  /// Either all ranks get past `action`, or all throw.
  template <class Action>
  void in_step(const Exec& exec, Action&& action) const {
    if constexpr (can_share) {
      if (!alone()) return Impl::in_step(exec, *comm_, action, [] { return std::vector<Fact>(); });
    }
    action();
  }

  /// The checks of a call that exchanges; they return its rows. Where exchanges wait for the host anyway, ranks agree
  /// that all of them call alike; an asynchronous communicator would have to wait for that, and its time limit ends an
  /// uneven call.
  template <class Checks>
  void before_call(const Exec& exec, Pass pass, const LaunchPlan& plan, Checks&& checks) const {
    check();
    if constexpr (can_share && !Comm::is_asynchronous) {
      if (!alone() && !is_in_kernel(plan) && (pass != Pass::backward || plan.path == Path::naive)) {
        std::int64_t rows = 0;
        return Impl::in_step(
            exec, *comm_, [&] { rows = checks(); },
            [&]() -> std::vector<Fact> {
              return {{"the pass of a call", double(static_cast<int>(pass))}, {"the number of rows", double(rows)}};
            });
      }
    }
    checks();
  }

  void check() const {
    if (comm_) comm_->check();
    expect_no_lost_peer();
  }
  void wait(const Exec& exec) const {
    comm_ ? comm_->wait(exec) : exec.fence("VocabLoss::Plan::wait");
    expect_no_lost_peer();
  }

  /// Learns the shards of all ranks, and that they were asked for the same thing. Collective.
  template <class Loss, class Options>
  void meet(const Exec& exec, const Problem& problem, const Options& options, const PlanRequest& request) {
    if constexpr (can_share) {
      if (alone()) return;
      const auto number = [](auto value) { return static_cast<double>(value); };
      std::vector<Fact> facts = {
          {"the loss", fingerprint(typeid(Loss).name())},
          {"the vocabulary", number(problem.partition.vocab)},
          {"the number of rows", number(problem.rows)},
          {"the type of the logits", number(static_cast<int>(problem.logits))},
          {"the type of the teacher", problem.teacher ? number(static_cast<int>(*problem.teacher)) : -1.0},
          {"PlanRequest::path", number(static_cast<int>(request.path))},
          {"PlanRequest::exchange", number(static_cast<int>(request.exchange))},
          {"PlanRequest::block_rows", number(request.block_rows)},
          {"PlanRequest::variant (a fingerprint)", fingerprint(request.variant)},
          {"PlanRequest::time_limit", number(request.time_limit.count())},
      };
      for (const auto& [name, value] : option_values(options)) facts.push_back({name, value});
      const std::vector<double> own =
          compare_facts(exec, *comm_, facts,
                        {number(problem.partition.first), number(problem.partition.columns), host_fingerprint(),
                         number(Stages<Loss, Logit, Exec>::refusal_here(problem).empty() ? 1 : 0)});
      shards_.clear();
      sharers_ = 0;
      rank_without_cluster_ = -1;
      for (int rank = 0; rank < comm_->size(); ++rank) {
        const double* of_rank = own.data() + 4 * rank;
        if (of_rank[3] == 0 && rank_without_cluster_ < 0) rank_without_cluster_ = rank;
        shards_.push_back({problem.partition.vocab, std::int64_t(of_rank[0]), std::int64_t(of_rank[1])});
        sharers_ += of_rank[2] == host_fingerprint() ? 1 : 0;
      }
      expect_tiling(shards_);
    }
  }

  /// \throws PathRefused, OutOfMemory
  template <class Loss>
  LaunchPlan choose(const Exec& exec, const Problem& problem, const PlanRequest& request) {
    expect_shareable<Loss>(request);
    if (asks_for_in_kernel(request)) return choose_in_kernel<Loss>(exec, problem, request);
    LaunchPlan plan = TeamPath<Loss, Logit, Exec>::choose(problem, request);
    plan.path = request.path == Path::automatic ? Path::team : request.path;
    if (request.path == Path::automatic || request.path == Path::cluster) adopt_cluster<Loss>(problem, request, plan);
    plan.ranks = comm_->size();
    plan.communicator = comm_->describe(exec);
    plan.block_rows = std::max<std::int64_t>(problem.rows, 1);
    if (plan.path == Path::gather) {
      gather_.emplace(problem, shards_, Loss::streams, GatherExchange<Loss, Logit, Exec, Comm>::state_bytes);
      expect_room<Exec>(*gather_, request.memory_limit, sharers_);
      plan.block_rows = gather_->block_rows;
      return plan;
    }
    plan.exchange = request.exchange;
    if (plan.path == Path::naive) return plan;
    const std::int64_t chosen = request.exchange == Exchange::allgather && plan.path == Path::team
                                    ? choose_block_rows(problem, largest_shard(shards_), runs_on_host<Exec>)
                                    : plan.block_rows;
    plan.block_rows = std::min(plan.block_rows, request.block_rows > 0 ? request.block_rows : chosen);
    if (AllgatherExchange<Loss, Logit, Exec, Comm>::overlaps && plan.block_rows < problem.rows)
      side_ = std::make_shared<SideStream<Exec>>(Loss::rounds + 1);
    return plan;
  }

  template <class Loss>
  std::size_t workspace_bytes(const Problem& problem, const LaunchPlan& plan) const {
    if (plan.path == Path::gather) return gather_->bytes();
    if (is_in_kernel(plan)) return InKernelPath<Loss, Logit, Exec>::workspace_bytes(problem, plan);
    if (plan.path == Path::naive) return NaiveOverRanks<Loss, Logit, Exec, Comm>::workspace_bytes(problem);
    const std::size_t reals = plan.exchange == Exchange::two_allreduce
                                  ? TwoAllreduceExchange<Loss, Logit, Exec, Comm>::reals(plan)
                                  : AllgatherExchange<Loss, Logit, Exec, Comm>::reals(plan);
    return Stages<Loss, Logit, Exec>::workspace_bytes(problem, plan) + reals * sizeof(Real);
  }

  /// After the choice, and once the workspace is there: what exchanges need beside it. Collective.
  /// \throws PathRefused, OutOfMemory
  template <class Loss>
  void connect(const Exec& exec, const Problem& problem, const LaunchPlan& plan, char* workspace) {
    using InKernel = InKernelPath<Loss, Logit, Exec>;
    if (!is_in_kernel(plan)) {
      return in_step(exec, [&] { Stages<Loss, Logit, Exec>::prepare(exec, problem, plan, workspace); });
    }
    if constexpr (can_share && InKernel::exists) {
      std::vector<double> invitation;
      in_step(exec, [&] {
        InKernel::prepare(exec, problem, plan, workspace);
        peers_ = std::make_shared<PeerMemory>(comm_->rank(), comm_->size(), InKernel::window_bytes(problem, plan));
        invitation = peers_->invitation();
      });
      const std::vector<double> all = gather_numbers(exec, *comm_, invitation);
      in_step(exec, [&] { peers_->open(all); });
      peers_->settle();
      rows_ = problem.rows;
    }
  }

  template <class Loss>
  void run(const Exec& exec, const Loss& loss, const RowCall<Real>& call, Pass pass, const LaunchPlan& plan,
           char* workspace) const {
    if (call.rows == 0) return;
    if constexpr (InKernelPath<Loss, Logit, Exec>::exists) {
      if (is_in_kernel(plan)) {
        return InKernelPath<Loss, Logit, Exec>::run(exec, loss, call, pass, plan, workspace, *peers_, comm_->rank(),
                                                    rows_, time_limit_);
      }
    }
    if (plan.path == Path::naive) {
      return NaiveOverRanks<Loss, Logit, Exec, Comm>::run(exec, *comm_, loss, call, pass, plan, workspace);
    }
    const Stages<Loss, Logit, Exec> stages(plan, workspace);
    if (pass == Pass::backward) return stages.run_backward(exec, loss, call);
    const Kokkos::Profiling::ScopedRegion region("VocabLoss::" + std::string(name_of(plan.path)) +
                                                 "::ranks::" + std::string(name_of(pass)));
    const auto run_with = [&](auto exchange) {
      StagedRun<Loss, Logit, Exec, decltype(exchange)>(exec, loss, call, pass, plan, stages, exchange).run();
    };
    if (plan.path == Path::gather) {
      return run_with(GatherExchange<Loss, Logit, Exec, Comm>(*comm_, *gather_, shards_, plan, workspace));
    }
    Real* buffer = reinterpret_cast<Real*>(workspace + Stages<Loss, Logit, Exec>::workspace_bytes({}, plan));
    if (plan.exchange == Exchange::two_allreduce) {
      run_with(TwoAllreduceExchange<Loss, Logit, Exec, Comm>(*comm_, plan, stages, buffer));
    } else {
      run_with(AllgatherExchange<Loss, Logit, Exec, Comm>(*comm_, side_.get(), plan, stages, buffer));
    }
  }

 private:
  static bool asks_for_in_kernel(const PlanRequest& request) {
    return request.exchange == Exchange::in_kernel && request.path != Path::gather;
  }
  static bool is_in_kernel(const LaunchPlan& plan) { return plan.exchange == Exchange::in_kernel; }

  /// Path cluster for the stages, where all ranks can and it is asked for or free to choose. Else `plan` stays as it is
  /// and says why. \throws PathRefused  if it was asked for
  template <class Loss>
  void adopt_cluster(const Problem& problem, const PlanRequest& request, LaunchPlan& plan) const {
    using Kernels = Stages<Loss, Logit, Exec>;
    const std::int64_t most_columns = largest_shard(shards_);
    const LaunchPlan cluster = Kernels::choose_cluster(problem, most_columns, request);
    std::string reason = Kernels::cluster_refusal(problem, most_columns, cluster);
    if (reason.empty() && rank_without_cluster_ >= 0) {
      reason = "rank " + std::to_string(rank_without_cluster_) +
               " cannot run path cluster, and says why. All ranks take the same path: team";
    }
    if (reason.empty()) {
      plan.path = Path::cluster;
      plan.cluster = cluster.cluster;
      plan.cluster_forward = cluster.cluster_forward;
      plan.variant = cluster.variant;
    } else if (request.path == Path::cluster) {
      throw PathRefused("vocabloss: " + reason);
    } else {
      plan.reason = reason;
    }
  }

  template <class Loss>
  LaunchPlan choose_in_kernel(const Exec& exec, const Problem& problem, const PlanRequest& request) {
    using InKernel = InKernelPath<Loss, Logit, Exec>;
    LaunchPlan plan = InKernel::choose(problem, largest_shard(shards_), request);
    const std::string reason = InKernel::refusal(problem, plan, comm_->size());
    if (!reason.empty()) throw PathRefused("vocabloss: " + reason);
    plan.exchange = Exchange::in_kernel;
    plan.ranks = comm_->size();
    plan.communicator = "CUDA IPC, set up over " + comm_->describe(exec);
    plan.block_rows = 1;
    time_limit_ = request.time_limit;
    return plan;
  }

  void expect_no_lost_peer() const {
    if (!peers_ || !peers_->is_lost()) return;
    throw CommunicationError("vocabloss: rank " + std::to_string(comm_->rank()) + " of " +
                             std::to_string(comm_->size()) +
                             ": a rank is lost, late, or made other calls: states of its rows did not come within " +
                             std::to_string(time_limit_.count()) +
                             " ms, and the rows that lack them are NaN. This plan cannot be used any more");
  }

  template <class Loss>
  static void expect_shareable(const PlanRequest& request) {
    expects(request.block_rows >= 0,
            [&] { return "block_rows must be 0 (chosen) or positive, got " + std::to_string(request.block_rows); });
    const auto refuse = [](const std::string& why) { throw PathRefused("vocabloss: " + why); };
    expects(request.time_limit.count() > 0,
            [&] { return "time_limit must be positive, got " + std::to_string(request.time_limit.count()) + " ms"; });
    if (asks_for_in_kernel(request)) {
      if (request.path == Path::automatic || request.path == Path::cluster) return;
      refuse("exchange in_kernel is of path cluster alone: ask for that path, or for exchange allgather");
    }
    if (request.path == Path::naive) {
      if (request.exchange != Exchange::two_allreduce) {
        refuse("path naive reduces each quantity between ranks by itself: ask for exchange two_allreduce");
      }
      const std::string reason = NaiveOverRanks<Loss, Logit, Exec, Comm>::refusal();
      if (!reason.empty()) refuse(reason);
      return;
    }
    if (request.path == Path::reference || request.path == Path::split) {
      refuse("path " + std::string(name_of(request.path)) +
             " needs the whole vocabulary on one rank: use path cluster, team, naive or gather between ranks");
    }
    if (request.path == Path::gather) return;
    if (request.exchange == Exchange::two_allreduce && !has_maxima_and_sums<Loss>()) {
      refuse("exchange two_allreduce knows states of maxima and sums only, and this loss has others: use allgather");
    }
  }
  template <class Loss>
  static bool has_maxima_and_sums() {
    if constexpr (Loss::rounds == 2) {
      if (!StateWords<Loss, 1>::is_maxima_and_sums()) return false;
    }
    return StateWords<Loss, 0>::is_maxima_and_sums();
  }

  Comm* comm_ = nullptr;
  std::vector<VocabPartition> shards_;
  int sharers_ = 1;                ///< ranks on this host
  int rank_without_cluster_ = -1;  ///< the first that can run no stage on path cluster; -1: all can
  std::optional<GatherLayout> gather_;
  std::shared_ptr<SideStream<Exec>> side_;
  // exchange in_kernel:
  std::shared_ptr<PeerMemory> peers_;
  std::int64_t rows_ = 0;  ///< of the plan
  std::chrono::milliseconds time_limit_{};
};

}  // namespace vocabloss::Impl

#endif
