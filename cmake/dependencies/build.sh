#!/bin/sh
# Builds Kokkos and Kokkos Kernels (BLAS only) once into build/deps/<kind>. Used by cmake/bootstrap.sh; nothing here is needed where
# find_package already finds both.
#   usage: build.sh host|cuda
set -eu

kind=$1
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
prefix=$root/build/deps/$kind
work=$root/build/deps/work
jobs=${CMAKE_BUILD_PARALLEL_LEVEL:-$(nproc 2>/dev/null || echo 2)}
cxx=${CXX:-c++}

# The stamp changes with anything that changes the result. The host build is for this very CPU, so its features belong to the recipe.
recipe() {
  cat "$here"/build.sh "$here"/sources.txt "$here"/cuda13_overloads.hpp
  "$cxx" --version | head -n 1
  case $kind in
    host) grep -m 1 -E '^(flags|Features)' /proc/cpuinfo 2>/dev/null || uname -m ;;
    cuda) "${CUDACXX:-nvcc}" --version ;;
  esac
}
if ! command -v sha256sum >/dev/null; then
  echo "build.sh: sha256sum (coreutils) is missing" >&2
  exit 1
fi
stamp=$(recipe | sha256sum | cut -d ' ' -f 1)
if [ "$(cat "$prefix/.ready" 2>/dev/null)" = "$stamp" ]; then
  echo "-- build/deps/$kind is current"
  exit 0
fi

fetch() { # both sources in one archive whose hash is checked by pip, unpacked under $work/source
  archive_hash=$(sha256sum "$here/sources.txt" | cut -d ' ' -f 1)
  [ "$(cat "$work/source/.fetched" 2>/dev/null)" = "$archive_hash" ] && return
  rm -rf "$work/source" "$work/venv"
  mkdir -p "$work/source"
  python3 -m venv "$work/venv"
  "$work/venv/bin/pip" install --quiet -r "$here/tools.txt"
  "$work/venv/bin/pip" download --quiet --no-deps --no-build-isolation --no-binary pycompadre --require-hashes \
    -r "$here/sources.txt" -d "$work/source"
  tar -xzf "$work"/source/*.tar.gz -C "$work/source" --strip-components 1
  rm -rf "$work"/source/*.tar.gz "$work/venv"
  echo "$archive_hash" >"$work/source/.fetched"
}

patch_for_cuda13() { # a copy with an include guard: the overloads go before its last #endif; Kokkos that knows CUDA 13 needs none
  core=$work/source/kokkos/core/src
  header=$core/setup/Kokkos_Setup_Cuda.hpp
  grep -q cudaMemLocation "$core/Cuda/Kokkos_Cuda_Instance.hpp" "$header" && return
  last=$(grep -n '^#endif' "$header" | tail -n 1 | cut -d : -f 1)
  sed -i "$((last - 1))r $here/cuda13_overloads.hpp" "$header"
}

install_one() { # name of the source folder, then its options
  name=$1
  shift
  echo "-- building $name ($kind)"
  cmake -S "$work/source/$name" -B "$work/$kind-$name" -G Ninja "$@" \
    -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX="$prefix" -DCMAKE_INSTALL_LIBDIR=lib \
    -DCMAKE_CXX_STANDARD=20 -DCMAKE_CXX_EXTENSIONS=OFF -DCMAKE_POSITION_INDEPENDENT_CODE=ON >"$work/$kind-$name.log" 2>&1 ||
    { tail -n 40 "$work/$kind-$name.log" >&2; exit 1; }
  { cmake --build "$work/$kind-$name" --parallel "$jobs" && cmake --install "$work/$kind-$name"; } >>"$work/$kind-$name.log" 2>&1 ||
    { tail -n 40 "$work/$kind-$name.log" >&2; exit 1; }
}

case $kind in
  host)
    kokkos_options="-DKokkos_ARCH_NATIVE=ON"
    kernels_options=""
    ;;
  cuda)
    # CMake 3.25 does not know nvcc's C++20 flag and would silently compile C++17. No ARCH_NATIVE: these programs travel to other CPUs.
    dialect="-DCMAKE_CUDA20_STANDARD_COMPILE_OPTION=-std=c++20 -DCMAKE_CUDA20_EXTENSION_COMPILE_OPTION=-std=c++20"
    dialect="$dialect -DCMAKE_CUDA_STANDARD=20 -DCMAKE_CUDA_EXTENSIONS=OFF -DCMAKE_CUDA_ARCHITECTURES=90"
    dialect="$dialect -DCMAKE_CUDA_RUNTIME_LIBRARY=Shared"
    kokkos_options="-DKokkos_ENABLE_CUDA=ON -DKokkos_ARCH_HOPPER90=ON -DKokkos_ENABLE_COMPILE_AS_CMAKE_LANGUAGE=ON $dialect"
    kernels_options="-DKokkosKernels_ENABLE_TPL_CUSPARSE=OFF -DKokkosKernels_ENABLE_TPL_CUSOLVER=OFF $dialect"
    ;;
  *)
    echo "build.sh: kind '$kind' is neither host nor cuda" >&2
    exit 2
    ;;
esac

mkdir -p "$work"
fetch
[ "$kind" = host ] || patch_for_cuda13
rm -rf "$prefix" "$work/$kind-kokkos" "$work/$kind-kokkos-kernels"
# shellcheck disable=SC2086 # the option lists are meant to be split
install_one kokkos -DKokkos_ENABLE_SERIAL=ON -DKokkos_ENABLE_OPENMP=ON -DKokkos_ENABLE_IMPL_MDSPAN=OFF \
  -DKokkos_ENABLE_DEPRECATED_CODE_4=OFF $kokkos_options
# shellcheck disable=SC2086
install_one kokkos-kernels -DKokkos_DIR="$prefix/lib/cmake/Kokkos" -DKokkosKernels_ENABLE_ALL_COMPONENTS=OFF \
  -DKokkosKernels_ENABLE_COMPONENT_BLAS=ON -DKokkosKernels_ADD_DEFAULT_ETI=OFF $kernels_options
rm -rf "$work/$kind-kokkos" "$work/$kind-kokkos-kernels"
echo "$stamp" >"$prefix/.ready"
