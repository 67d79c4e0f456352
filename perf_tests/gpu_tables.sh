#!/usr/bin/env bash
# gpu_tables.sh SWEEP OUT [FAST_LLM]: every figure of one GPU, on a GPU machine, from a built entropy_sweep (SWEEP) and from torch where there
# is one. Builds nothing. Writes OUT/*.json in entropy_sweep's form and prints the README's tables from them. FAST_LLM: a folder that holds
# the package fast_llm; Liger is timed where its package is installed. Every case of ours is checked against the double reference.
# PARTS narrows the run: "ours short peaked caps naive few forward types peers peers_few".
set -uo pipefail
sweep=$1 out=$2 fast_llm=${3:-}
here=$(cd "$(dirname "$0")" && pwd)
parts=${PARTS:-ours short peaked caps naive few forward types peers peers_few}
mkdir -p "$out"
code=0

wanted() { [[ " $parts " == *" $1 "* ]]; }
ours() { # name, options...
  local name=$1
  shift
  "$sweep" --check --quiet --json "$out/$name.json" "$@" || { echo "gpu_tables.sh: $name: exit code $?" >&2; code=1; }
}
peers() { # name, options...
  local name=$1
  shift
  python3 "$here/torch_peers.py" ${fast_llm:+--fast-llm "$fast_llm"} --json "$out/$name.json" "$@" >&2 || code=1
}

all=reverse_kl,forward_kl,soft_cross_entropy,cross_entropy,z_loss,log_prob_entropy,jsd
three=reverse_kl,soft_cross_entropy,cross_entropy
wanted ours && ours cluster --path cluster --loss $all --vocab 8192,16384,32768,50257,50304,65536,131072,262144
wanted short && ours short --path cluster --loss $all --vocab 1024,2048,4096,5003,6144,12288
wanted peaked && ours peaked --data peaked --path cluster --loss $all --vocab 4096,8192,32768,50257,65536,131072,262144
wanted caps && ours caps --path team --loss $three --vocab 32768,65536,131072 --block-cap 1024,2048,4096,8192,16384,32768
wanted caps && ours team_sums --path team --loss jsd,log_prob_entropy --vocab 32768,65536,131072
wanted naive && ours naive --path naive --loss $three --vocab 32768,131072 --repeat 5
wanted few && ours few --path auto,cluster,split,team --loss reverse_kl,cross_entropy --rows 1,8,64,131 --vocab 32768,131072
wanted forward && ours forward --path cluster --pass forward --loss $all --vocab 8192,32768,50257,65536,131072,262144
if wanted types; then
  ours fp16 --path cluster --type fp16 --loss $three --vocab 32768,131072
  ours fp32 --path cluster --type fp32 --loss $three --vocab 32768,131072
  ours in_place --path cluster --in-place --loss $three --vocab 32768,131072
fi
liger=$(python3 -c 'import liger_kernel' 2>/dev/null && echo ,liger)
wanted peers && peers peers --loss reverse_kl,soft_cross_entropy,cross_entropy,z_loss \
  --variant "torch_compile,torch_autotune${fast_llm:+,fast_llm,fast_llm_cap32k}$liger"
wanted peers && peers peers_sums --loss jsd,log_prob_entropy --variant "torch_compile$liger"
wanted peers_few && peers peers_few --loss reverse_kl,cross_entropy --rows 1,8,64 --vocab 131072 \
  --variant torch_compile,torch_compile_graph

python3 "$here/results_table.py" "$out"/*.json
exit $code
