// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_PLAN_HPP
#define VOCABLOSS_PLAN_HPP

/// \file
/// \brief Losses over the vocabulary and their gradient: made once as a Plan, called as often as wanted.
///
/// For every row of a batch: its loss, and dloss/dlogits times the upstream gradient of the row, in one pass over the
/// logits. Formulas of the shipped losses, with x the logits, t the teacher, s, u, T the options' scales and
/// temperature, p = softmax(s x / T), q = softmax(u t / T), y the label (DESIGN of the infinities: docs in each loss
/// header):
///
/// | loss                   | value                          | gradient by x_j (times s / T)        |
/// |------------------------|--------------------------------|--------------------------------------|
/// | loss::CrossEntropy     | lse - s x_y                    | p_j - [j = y]                        |
/// | loss::LogProb          | s x_y - lse                    | [j = y] - p_j                        |
/// | loss::SoftCrossEntropy | - sum q log p                  | p_j - q_j                            |
/// | loss::SoftCrossEntropyProbabilities | sum(q) lse - sum q s x, q given | sum(q) p_j - q_j       |
/// | loss::ForwardKl        | sum q (log q - log p)          | p_j - q_j                            |
/// | loss::ReverseKl        | sum p (log p - log q)          | p_j (log p_j - log q_j - loss)       |
/// | loss::Jsd              | beta KL(q,m) + (1-beta) KL(p,m) | (1-beta) p_j (log p_j/m_j - sum p log p/m) |
/// | loss::ZLoss            | lse^2                          | 2 lse p_j                            |
/// | loss::Entropy          | - sum p log p                  | - p_j (log p_j + H)                  |
/// | loss::LogProbEntropy   | LogProb; Entropy (two outputs) | their sum, each with its upstream    |
///
/// Read next: batch.hpp (what a call reads and writes), loss/concept.hpp (a loss of your own), tuning/plan.hpp (paths).

#include <vocabloss/batch.hpp>
#include <vocabloss/comm/self.hpp>
#include <vocabloss/error.hpp>
#include <vocabloss/impl/allocate.hpp>
#include <vocabloss/impl/checked_options.hpp>
#include <vocabloss/impl/distributed/rank_plan.hpp>
#include <vocabloss/impl/loss_dispatch.hpp>
#include <vocabloss/impl/path_list.hpp>
#include <vocabloss/impl/summarise.hpp>
#include <vocabloss/loss/losses.hpp>
#include <vocabloss/tuning/plan.hpp>

#include <Kokkos_Core.hpp>

#include <string>

namespace vocabloss {

/// \brief Launch choices and workspace for one loss over batches of one shape.
///
/// \tparam Loss   a class template over Real that satisfies loss::LossAlgebra (namespace loss holds the shipped ones)
/// \tparam Logit  storage of the logits: bfloat16, float16, float or double
/// \tparam Exec   Kokkos execution space
/// \tparam Comm   what the ranks that share the vocabulary talk through (comm/concept.hpp); by default there is one
/// rank
///
/// asynchrony   the constructor may allocate and wait; calls only enqueue on the instance they are given
/// memory       workspace_bytes() and rows * statistics_per_row Reals, allocated by the constructor, not by calls
/// traffic      path team: 2 reads and 1 write of each stream (JSD 3 reads), the second from cache if rows fit it. Path
///              cluster: 1 read and 1 write (of two streams of more than 65536 bf16 columns some tenth of the rows is
///              read again, from L2); between ranks 2 reads and 1 write, but over exchange in_kernel
/// numerics     16-bit and float logits are accumulated in float, double in double; gradients are rounded once
/// ranks        sharing a vocabulary: same bits on all of them over the exchange `allgather`
/// determinism  same plan, same inputs: same bits. Other plans may differ in the last digits
/// thread safety  calls of one plan share its workspace: one at a time. Plans are independent
/// label        Kokkos regions "VocabLoss::<path>::<pass>"
template <template <class> class Loss, class Logit, class Exec = Kokkos::DefaultExecutionSpace, class Comm = comm::Self>
class Plan {
 public:
  using Real = Accumulate<Logit>;
  using Algebra = Loss<Real>;
  using Options = typename Algebra::Options;
  static_assert(loss::LossAlgebra<Algebra>, "Loss does not satisfy loss::LossAlgebra: see loss/concept.hpp");

  /// Reals that a backward needs of each row.
  static constexpr int statistics_per_row = sizeof(typename Algebra::Statistics) / sizeof(Real);

  /// Plans for batches like `example`: same columns, types, gradient mode; at most as many rows.
  /// \throws InvalidArgument  options out of range; Views of the example that do not fit each other or the loss
  /// \throws PathRefused      the asked path cannot run the problem, with the reason
  /// \throws OutOfMemory      the workspace cannot be allocated
  Plan(const Exec& exec, const Batch<Logit, Exec>& example, const Options& options = {},
       const PlanRequest& request = {})
      : options_(options) {
    make(exec, example, request);
  }

  /// Plans for a vocabulary that the ranks of `comm` share: the batch of each holds its shard (Batch::partition), empty
  /// ones included; rows, labels, mask, weights and upstream gradients are the same on all ranks, as losses, statistics
  /// and summary will be. `comm` must outlive the plan. Collective, as every forward of the plan is: all ranks make the
  /// same calls in the same order. What one rank cannot do, all refuse: no rank is left waiting (over a communicator
  /// that is asynchronous this holds for the constructor; a call that one rank does not make ends at the time limit).
  /// \throws as above, and InvalidArgument where shards do not tile the vocabulary or ranks ask for different things
  Plan(const Exec& exec, Comm& comm, const Batch<Logit, Exec>& example, const Options& options = {},
       const PlanRequest& request = {})
      : options_(options), ranks_(comm) {
    make(exec, example, request);
  }

  /// Losses (and statistics for a later backward). Ignores the batch's gradient and upstream.
  void forward(const Exec& exec, const Batch<Logit, Exec>& batch) const { run(exec, batch, Pass::forward); }

  /// Gradient from the statistics of the last forward (or from the batch's own). Writes no losses and no summary.
  /// Labels, mask, weights must be those of the forward; upstream gradients are read here.
  void backward(const Exec& exec, const Batch<Logit, Exec>& batch) const { run(exec, batch, Pass::backward); }

  /// Losses and gradient in one pass over the rows.
  void forward_backward(const Exec& exec, const Batch<Logit, Exec>& batch) const {
    run(exec, batch, Pass::forward_backward);
  }

  void run(const Exec& exec, const Batch<Logit, Exec>& batch, Pass pass) const {
    Impl::RowCall<Real> call;
    ranks_.before_call(exec, pass, launch_, [&] {
      call = checked_call(batch, pass);
      return call.rows;
    });
    Impl::dispatch_loss<Loss, Real>(options_, [&](const auto& algebra) {
      using Which = std::decay_t<decltype(algebra)>;
      if constexpr (Ranks::can_share) {
        if (!ranks_.alone()) return ranks_.run(exec, algebra, call, pass, launch_, workspace_.data());
      }
      Impl::visit_path<Which, Logit, Exec>(launch_.path, [&](auto path) {
        decltype(path)::type::run(exec, algebra, call, pass, launch_, workspace_.data());
      });
    });
    if (pass != Pass::backward && batch.summary_data()) {
      Impl::summarise<Algebra::outputs>(exec, call, static_cast<Real>(batch.divisor_value()), batch.summary_data());
    }
  }

  /// Throws CommunicationError if other ranks are known to be lost. Does not wait.
  void check() const { ranks_.check(); }
  /// Waits for what was enqueued on `exec`, or throws CommunicationError when the communicator's time limit has passed.
  void wait(const Exec& exec) const { ranks_.wait(exec); }

  const LaunchPlan& launch() const { return launch_; }
  const Problem& problem() const { return problem_; }
  const Options& options() const { return options_; }
  std::size_t workspace_bytes() const { return workspace_bytes_; }

  /// Why `path` cannot run such a batch, or an empty string.
  static std::string refusal(Path path, const Batch<Logit, Exec>& batch, const Options& options = {}) {
    Impl::validate_options(options);
    std::string reason;
    Impl::dispatch_loss<Loss, Real>(options, [&](const auto& algebra) {
      using Which = std::decay_t<decltype(algebra)>;
      reason = refusal_of<Which>(path, batch.problem(), {});
    });
    return reason;
  }

 private:
  using Ranks = Impl::RankPlan<Logit, Exec, Comm>;
  using Reals = Kokkos::View<Real*, typename Exec::memory_space>;

  void make(const Exec& exec, const Batch<Logit, Exec>& example, const PlanRequest& request) {
    ranks_.in_step(exec, [&] {
      problem_ = example.problem();
      Impl::validate_options(options_);
      check_streams(problem_);
      Impl::expects(problem_.partition.is_whole() || !ranks_.alone(), [&] {
        return "the batch holds columns " + std::to_string(problem_.partition.first) + " to " +
               std::to_string(problem_.partition.first + problem_.partition.columns) + " of a vocabulary of " +
               std::to_string(problem_.partition.vocab) + ": a plan without other ranks needs all of them";
      });
    });
    ranks_.template meet<Algebra>(exec, problem_, options_, request);
    ranks_.in_step(exec, [&] {
      Impl::dispatch_loss<Loss, Real>(options_, [&](const auto& algebra) { choose(exec, algebra, request); });
      workspace_ = Impl::allocate_bytes(exec, "VocabLoss::workspace", workspace_bytes_);
      statistics_ = Reals(Kokkos::view_alloc(exec, Kokkos::WithoutInitializing, "VocabLoss::statistics"),
                          problem_.rows * statistics_per_row);
      losses_ = Reals(Kokkos::view_alloc(exec, Kokkos::WithoutInitializing, "VocabLoss::losses"),
                      problem_.rows * Algebra::outputs);
      if (ranks_.alone()) prepare_workspace(exec);
    });
    if constexpr (Ranks::can_share) {
      if (!ranks_.alone()) {
        Impl::dispatch_loss<Loss, Real>(options_, [&](const auto& algebra) {
          ranks_.template connect<std::decay_t<decltype(algebra)>>(exec, problem_, launch_, workspace_.data());
        });
      }
    }
    exec.fence("VocabLoss::Plan");
  }

  template <class Which>
  static std::string refusal_of(Path path, const Problem& problem, const LaunchPlan& plan) {
    return Impl::visit_path<Which, Logit, Exec>(path,
                                                [&](auto tag) { return decltype(tag)::type::refusal(problem, plan); });
  }

  template <class Which>
  void choose(const Exec& exec, const Which&, const PlanRequest& request) {
    Impl::expects(request.block_cap >= 0,
                  [&] { return "block_cap must be 0 (chosen) or positive, got " + std::to_string(request.block_cap); });
    const bool chooses_cluster = request.path == Path::automatic && request.exchange == Exchange::in_kernel;
    Impl::expects(
        request.variant.empty() || request.path == Path::cluster || (!ranks_.alone() && chooses_cluster), [&] {
          return "variant \"" + request.variant + "\" is a shape of path cluster, but path " +
                 std::string(name_of(request.path)) + " is asked for: ask for path cluster, or leave the variant empty";
        });
    if constexpr (Ranks::can_share) {
      if (!ranks_.alone()) {
        launch_ = ranks_.template choose<Which>(exec, problem_, request);
        workspace_bytes_ = ranks_.template workspace_bytes<Which>(problem_, launch_);
        return;
      }
    }
    if (request.path != Path::automatic) {
      adopt<Which>(request.path, request);
      const std::string reason = refusal_of<Which>(request.path, problem_, launch_);
      if (!reason.empty()) throw PathRefused("vocabloss: " + reason);
      return;
    }
    std::string reasons;
    for (const Path path : Impl::automatic_order(problem_)) {
      adopt<Which>(path, request);
      const std::string reason = refusal_of<Which>(path, problem_, launch_);
      if (reason.empty()) {
        launch_.reason = reasons;
        return;
      }
      reasons += (reasons.empty() ? "" : "; ") + reason;
    }
    throw PathRefused("vocabloss: no path can run this problem: " + reasons);
  }

  template <class Which>
  void adopt(Path path, const PlanRequest& request) {
    Impl::visit_path<Which, Logit, Exec>(path, [&](auto tag) {
      launch_ = decltype(tag)::type::choose(problem_, request);
      workspace_bytes_ = decltype(tag)::type::workspace_bytes(problem_, launch_);
    });
    launch_.path = path;
  }

  void prepare_workspace(const Exec& exec) const {
    Impl::dispatch_loss<Loss, Real>(options_, [&](const auto& algebra) {
      using Which = std::decay_t<decltype(algebra)>;
      Impl::visit_path<Which, Logit, Exec>(launch_.path, [&](auto tag) {
        using Chosen = typename decltype(tag)::type;
        if constexpr (requires { Chosen::prepare(exec, problem_, launch_, workspace_.data()); }) {
          Chosen::prepare(exec, problem_, launch_, workspace_.data());
        }
      });
    });
  }

  void check_streams(const Problem& problem) const {
    Impl::expects(!(Algebra::streams == 2 && !problem.teacher), [] {
      return std::string("this loss compares logits with a teacher, and the batch has none: call Batch::teacher");
    });
  }

  Impl::RowCall<Real> checked_call(const Batch<Logit, Exec>& batch, Pass pass) const {
    check_call(batch.problem(), pass);
    Impl::RowCall<Real> call = batch.row_call();
    if (pass == Pass::forward) call.gradient = {};
    if (pass == Pass::backward) call.losses[0] = call.losses[1] = nullptr;
    const Real factor = static_cast<Real>(Impl::loss_factor_of(options_));
    call.loss_factor = factor;
    call.gradient_factor *= factor;
    use_own_buffers(batch, call, pass);
    return call;
  }

  void check_call(const Problem& problem, Pass pass) const {
    check_streams(problem);
    Impl::expects(problem.rows <= problem_.rows, [&] {
      return "the batch has " + std::to_string(problem.rows) + " rows but the plan was made for at most " +
             std::to_string(problem_.rows) + ": make a plan for the larger batch";
    });
    Impl::expects(problem.partition == problem_.partition, [&] {
      return "the batch has " + std::to_string(problem.partition.columns) + " columns but the plan was made for " +
             std::to_string(problem_.partition.columns) + ": make another plan";
    });
    Impl::expects(pass == Pass::forward || problem.gradient,
                  [] { return std::string("a backward needs somewhere to put the gradient: call Batch::gradient"); });
    // A plan made without a gradient is one for gradients stored as the logits are.
    const bool same_gradient =
        problem.gradient == problem_.gradient.value_or(problem_.logits) && problem.accumulate == problem_.accumulate;
    const bool same_kind = problem.teacher == problem_.teacher && (pass == Pass::forward || same_gradient);
    Impl::expects(same_kind, [] {
      return std::string("the batch's teacher or gradient is stored otherwise than the plan was made for");
    });
  }

  void use_own_buffers(const Batch<Logit, Exec>& batch, Impl::RowCall<Real>& call, Pass pass) const {
    const Impl::ViewFacts& given = batch.statistics_facts();
    if (given.is_set) {
      Impl::expects(given.extent[0] == call.rows && given.extent[1] == statistics_per_row &&
                        (given.stride[0] == statistics_per_row || given.extent[0] <= 1),
                    [&] {
                      return "statistics have shape " + given.shape() + ", row stride " +
                             std::to_string(given.stride[0]) + ": contiguous [" + std::to_string(call.rows) + ", " +
                             std::to_string(statistics_per_row) + "] is needed";
                    });
    } else if (pass != Pass::forward_backward || ranks_.keeps_statistics(launch_)) {
      call.statistics = statistics_.data();
    }
    for (int output = 0; output < Algebra::outputs; ++output) {
      if (pass != Pass::backward && batch.summary_data() && !call.losses[output]) {
        call.losses[output] = losses_.data() + output * problem_.rows;
        call.losses_stride[output] = 1;
      }
    }
    if (Algebra::needs_label) {
      Impl::expects(call.has_labels() || call.rows == 0, [] {
        return std::string("this loss needs a label per row, and the batch has none: call Batch::labels");
      });
    }
  }

  Options options_;
  Problem problem_;
  LaunchPlan launch_;
  Ranks ranks_;
  std::size_t workspace_bytes_ = 0;
  Impl::Bytes<Exec> workspace_;
  Reals statistics_;
  Reals losses_;
};

}  // namespace vocabloss

#endif
