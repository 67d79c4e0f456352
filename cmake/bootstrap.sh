#!/bin/sh
# From a fresh checkout to results. Everything real is a CMake preset; this only sees to it that the presets find what they need.
#   sh cmake/bootstrap.sh sweep               build, then run entropy_sweep on the shipped real logits and a short synthetic sweep
#   sh cmake/bootstrap.sh test                build and run all tests
#   sh cmake/bootstrap.sh deps [host|cuda]    only the dependencies
#   sh cmake/bootstrap.sh deps slurm          what the test under Slurm needs beside them; without it that test is skipped
set -eu
cd "$(dirname "$0")/.."
: "${CMAKE_BUILD_PARALLEL_LEVEL:=$(nproc 2>/dev/null || echo 2)}"
export CMAKE_BUILD_PARALLEL_LEVEL

usage() {
  sed -n 's/^#   //p' "$0" >&2
  exit 2
}

install_packages() {
  [ $# -gt 0 ] || return 0
  if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
    echo "-- installing $*"
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq
    apt-get install -y -qq --no-install-recommends "$@" >/dev/null
  else
    echo "bootstrap.sh: missing on this machine, in the names of Debian's packages: $*" >&2
    echo "bootstrap.sh: as root: apt-get install $*" >&2
    exit 1
  fi
}

dependencies() { # kind
  command -v ninja >/dev/null || install_packages ninja-build
  probe=build/deps/probe-$1
  rm -rf "$probe"
  mkdir -p "$probe"
  cmake -G Ninja -S cmake/dependencies/probe -B "$probe" -DKIND="$1" >"$probe/log" 2>&1 || { cat "$probe/log" >&2; exit 1; }
  # shellcheck disable=SC2046 # a list of package names
  install_packages $(cat "$probe/missing.txt")
  case $(cat "$probe/kokkos.txt") in
    found*) echo "-- Kokkos $(cat "$probe/kokkos.txt")" ;;
    *)
      python3 -c 'import ensurepip, venv' 2>/dev/null || install_packages python3-venv
      sh cmake/dependencies/build.sh "$1"
      ;;
  esac
}

case ${1:-} in
  sweep)
    dependencies host
    cmake --preset host
    cmake --build --preset host --target entropy_sweep
    sweep=build/host/apps/entropy_sweep/entropy_sweep
    sample=apps/entropy_sweep/sample
    export OMP_PROC_BIND="${OMP_PROC_BIND:-spread}" OMP_PLACES="${OMP_PLACES:-threads}"
    echo "-- real logits: $sample"
    "$sweep" --input $sample/student-32k-16.safetensors,$sample/teacher-32k-16.safetensors --path team --check \
      --loss cross_entropy,soft_cross_entropy,forward_kl,reverse_kl,jsd,z_loss,entropy,log_prob
    echo "-- synthetic logits"
    "$sweep" --loss cross_entropy,reverse_kl --vocab 32768,131072 --rows 64 --type fp32,bf16 --path team,naive --repeat 5 --check
    ;;
  test)
    dependencies host
    cmake --workflow --preset host
    ;;
  deps)
    case ${2:-host} in
      host | cuda) dependencies "${2:-host}" ;;
      slurm)
        missing=""
        for package in slurm-wlm munge libpmix-dev; do
          dpkg-query -W -f='${db:Status-Abbrev}' "$package" 2>/dev/null | grep -q '^.i' || missing="$missing $package"
        done
        # shellcheck disable=SC2086 # a list of package names
        install_packages $missing
        ;;
      *) usage ;;
    esac
    ;;
  *) usage ;;
esac
