#!/usr/bin/env bash
# The comparison of exchanges on a machine with N GPUs, a rank a GPU: runs, and writes a JSON file a variant. Builds nothing.
#   perf_tests/ranks_table.sh ENTROPY_SWEEP RANKS FOLDER VOCAB...
# ENTROPY_SWEEP is the program of a build with MPI and NCCL (preset cuda-h100-nccl). Each variant runs by itself, so that one that dies
# or hangs (LIMIT seconds, 300) costs its own file only; exit code 3 (refused, out of memory) is a result like any other.
# ROWS (4096), LOSSES, REPEAT (20), BACK_TO_BACK (1) and MPIEXEC (mpirun -n) may be set. Then: python3 perf_tests/ranks_table.py FOLDER
set -u
if [ $# -lt 4 ]; then
  sed -n '2,6s/^# \{0,1\}//p' "$0" >&2
  exit 2
fi
program=$1
ranks=$2
folder=$3
shift 3
[ -x "$program" ] || { echo "ranks_table.sh: '$program' is no program: build the preset cuda-h100-nccl first" >&2; exit 2; }
[ "$ranks" -ge 2 ] 2>/dev/null || { echo "ranks_table.sh: RANKS is '$ranks': give a number of at least 2" >&2; exit 2; }
mkdir -p "$folder" || exit 2

rows=${ROWS:-4096}
losses=${LOSSES:-reverse_kl,soft_cross_entropy,cross_entropy}
common=(--loss "$losses" --rows "$rows" --type bf16 --pass forward_backward --repeat "${REPEAT:-20}" --back-to-back "${BACK_TO_BACK:-1}")
read -r -a launcher <<<"${MPIEXEC:-mpirun -n}"
failures=0

run() { # file stem, then the command
  local json=$folder/$1.json log=$folder/$1.log code
  shift
  rm -f "$json"
  timeout --kill-after=10 "${LIMIT:-300}" "$@" --json "$json" >"$log" 2>&1
  code=$?
  if [ $code -ne 0 ] && [ $code -ne 3 ] || [ ! -s "$json" ]; then
    failures=$((failures + 1))
    echo "ranks_table.sh: exit code $code: see $log" >&2
    tail -n 5 "$log" >&2
  fi
}

for vocab in "$@"; do
  if [ $((vocab % ranks)) -ne 0 ]; then
    echo "ranks_table.sh: $ranks ranks do not divide $vocab columns: the shard alone is then the largest one" >&2
  fi
  shard=$(((vocab + ranks - 1) / ranks))
  over() { # name, then the options of a variant over all ranks
    local name=$1
    shift
    echo "== $vocab over $ranks ranks: $name"
    run "$vocab-$ranks-$name" "${launcher[@]}" "$ranks" "$program" --comm nccl --vocab "$vocab" "${common[@]}" "$@"
  }
  echo "== $shard columns alone"
  run "$vocab-$ranks-alone" "$program" --comm self --vocab "$shard" "${common[@]}" --path auto
  over naive --path naive --exchange two_allreduce
  over gather --path gather
  over two_allreduce --path team --exchange two_allreduce
  over allgather --path team --exchange allgather
  over allgather_graph --path team --exchange allgather --graph
  over two_allreduce_cluster --path cluster --exchange two_allreduce
  over allgather_cluster --path cluster --exchange allgather
  over allgather_cluster_graph --path cluster --exchange allgather --graph
  over in_kernel --path auto --exchange in_kernel
done
[ $failures = 0 ] || echo "ranks_table.sh: $failures run(s) gave no result" >&2
exit $((failures > 0))
