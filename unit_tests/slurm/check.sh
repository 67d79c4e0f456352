#!/usr/bin/env bash
# What srun makes of the programs, inside one_node_slurm.sh:
#   check.sh RANK_LINES [ENTROPY_SWEEP]
# RANK_LINES prints a line for each rank (rank_lines.cpp). srun ends with 0 even where it could not launch, so lines are counted.
set -u
rank_lines=$1
entropy_sweep=${2-}
failures=0
fail() {
  echo "FAILED: $*" >&2
  failures=$((failures + 1))
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

if [ -n "$entropy_sweep" ] && "$entropy_sweep" --comm mpi --rows 1 --vocab 8 --repeat 1 2>&1 | grep -q "comm mpi is not in this build"; then
  echo "note: this entropy_sweep has no --comm mpi: the small program alone was checked"
elif [ -n "$entropy_sweep" ]; then
  results=$(mktemp -d) || exit 1
  trap 'rm -rf -- "$results"' EXIT
  for ranks in 2 4; do
    json=$results/$ranks.json
    launch -n $ranks "$entropy_sweep" --comm mpi --exchange allgather,two_allreduce --loss reverse_kl,cross_entropy --vocab 1001 --rows 16 \
      --type fp32,bf16 --repeat 2 --check --json "$json" >"$results/$ranks.txt"
    got=$?
    [ $got = 0 ] || fail "entropy_sweep on $ranks ranks ended with $got"
    cat "$results/$ranks.txt"
    # Eight cases, each told once, by rank 0.
    count=$(grep -o "\"ranks\": *$ranks\b" "$json" 2>/dev/null | wc -l)
    [ "$count" = 8 ] || fail "entropy_sweep on $ranks ranks wrote $count results of $ranks ranks, not 8"
    tables=$(grep -c "^loss " "$results/$ranks.txt")
    [ "$tables" -le 1 ] || fail "$tables ranks printed a table"
  done
  launch -n 2 "$entropy_sweep" --comm mpi --no-such-option >/dev/null 2>&1
  got=$?
  [ $got = 2 ] || fail "entropy_sweep's exit code 2 came out of srun as $got"
fi
[ $failures = 0 ] && echo "slurm: all checks passed"
exit $((failures > 0))
