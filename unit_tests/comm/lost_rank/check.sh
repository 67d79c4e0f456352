#!/usr/bin/env bash
# check.sh PROGRAM RANKS MPIEXEC [FLAG...]: kills one of the ranks, and stops one, during each kind of exchange. The others must say so within
# the time limit of lost_rank.cpp. Set KINDS to "in_kernel nccl" or to one of them.
set -uo pipefail
program=$1 ranks=$2
shift 2
failed=0
for kind in ${KINDS:-in_kernel}; do
  for how in kill stop; do
    log=$(mktemp)
    # A stopped rank keeps the launcher waiting: it is given the time that the others need, and then ended.
    timeout -s KILL 60 "$@" -n "$ranks" "$program" "$how" "$kind" >"$log" 2>&1 &
    launcher=$!
    for ((i = 0; i < 300; ++i)); do
      [ "$(grep -c '^rank [0-9]* reported after' "$log")" -ge $((ranks - 1)) ] && break
      kill -0 "$launcher" 2>/dev/null || break
      sleep 0.1
    done
    pkill -KILL -f "$program $how $kind"
    kill -KILL "$launcher" 2>/dev/null
    wait "$launcher" 2>/dev/null
    told=$(grep -c '^rank [0-9]* reported after' "$log")
    late=$(sed -n 's/^rank [0-9]* reported after \([0-9]*\) ms.*/\1/p' "$log" | awk '$1 > 10000' | wc -l)
    if [ "$told" -eq $((ranks - 1)) ] && [ "$late" -eq 0 ]; then
      echo "ok: $kind, $how: $told of $ranks ranks reported"
      grep -h '^rank' "$log"
    else
      echo "FAILED: $kind, $how: $told of $((ranks - 1)) ranks reported, $late of them late"
      cat "$log"
      failed=1
    fi
    rm -f "$log"
  done
done
exit $failed
