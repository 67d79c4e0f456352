#!/usr/bin/env bash
# What srun makes of the programs, inside one_node_slurm.sh:
#   check.sh RANK_LINES ENTROPY_SWEEP BATCH_SCRIPT
# RANK_LINES prints a line for each rank (rank_lines.cpp). srun ends with 0 even where it could not launch, so lines are counted, and the
# results that entropy_sweep wrote.
set -u
rank_lines=$1
entropy_sweep=$2
batch_script=$3
failures=0
fail() {
  echo "FAILED: $*" >&2
  failures=$((failures + 1))
}
# Eight cases, each told once, by rank 0, and one table.
expect_results() { # exit code, JSON file, output, ranks
  local count
  [ "$1" = 0 ] || fail "entropy_sweep on $4 ranks ended with $1"
  cat "$3"
  count=$(grep -c "\"ranks\": *$4\b" "$2" 2>/dev/null)
  [ "$count" = 8 ] || fail "entropy_sweep on $4 ranks wrote $count results of $4 ranks, not 8"
  count=$(grep -c "^loss " "$3")
  [ "$count" = 1 ] || fail "$count ranks printed a table, not one"
}
launch() { timeout 120 srun --overcommit "$@"; }

for ranks in 2 4; do
  output=$(launch -n $ranks "$rank_lines") || fail "srun -n $ranks ended with $?"
  echo "$output"
  for ((rank = 0; rank < ranks; rank++)); do
    count=$(grep -c "^rank $rank of $ranks: local rank $rank, sum $((ranks * (ranks + 1) / 2))$" <<<"$output")
    [ "$count" = 1 ] || fail "rank $rank of $ranks printed $count lines"
  done
done

# The exit code of the program is srun's, whichever rank has it; and a rank that fails says which one it is.
for code in 1 2 3; do
  launch -n 2 "$rank_lines" --exit-with $code >/dev/null 2>&1
  got=$?
  [ $got = $code ] || fail "exit code $code came out of srun as $got"
done
output=$(launch -n 2 "$rank_lines" --fail-on 1 2>&1)
got=$?
[ $got = 1 ] || fail "a rank that aborts came out of srun as $got"
grep -q "rank 1 of 2: asked to fail" <<<"$output" || fail "the failing rank did not say so: $output"

results=$(mktemp -d) || exit 1
trap 'rm -rf -- "$results"' EXIT
sweep=(--comm mpi --exchange allgather,two_allreduce --loss reverse_kl,cross_entropy --vocab 1001 --rows 16 --type fp32,bf16 --repeat 2 --check)
for ranks in 2 4; do
  json=$results/$ranks.json
  launch -n $ranks "$entropy_sweep" "${sweep[@]}" --json "$json" >"$results/$ranks.txt"
  expect_results $? "$json" "$results/$ranks.txt" $ranks
done

# The batch script as a user submits it, but for the GPUs, which this node has not.
for ranks in 2 4; do
  json=$results/batch-$ranks.json
  ENTROPY_SWEEP=$entropy_sweep timeout 120 sbatch --wait --quiet --ntasks-per-node=$ranks --gpus-per-node=0 --cpus-per-task=1 \
    --output="$results/batch-$ranks.txt" "$batch_script" "${sweep[@]}" --json "$json"
  expect_results $? "$json" "$results/batch-$ranks.txt" $ranks
  grep -q "^job .*, $ranks ranks$" "$results/batch-$ranks.txt" || fail "the batch script does not tell of $ranks ranks"
done

launch -n 2 "$entropy_sweep" --comm mpi --no-such-option >/dev/null 2>&1
got=$?
[ $got = 2 ] || fail "entropy_sweep's exit code 2 came out of srun as $got"
[ $failures = 0 ] && echo "slurm: all checks passed"
exit $((failures > 0))
