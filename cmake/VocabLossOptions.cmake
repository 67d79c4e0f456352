# Every option of the project. Columns: name, default, help (with what it needs).
option(VocabLoss_ENABLE_CUDA "Component cuda: kernels for H100; needs a Kokkos with CUDA and nvcc" OFF)
option(VocabLoss_ENABLE_MPI "Component mpi: vocabulary over MPI ranks; needs MPI" OFF)
option(VocabLoss_ENABLE_NCCL "Component nccl: vocabulary over GPUs; needs VocabLoss_ENABLE_CUDA and NCCL 2.28" OFF)
option(VocabLoss_BUILD_APPS "Build entropy_sweep; needs CLI11, nlohmann_json and fmt" ${PROJECT_IS_TOP_LEVEL})
option(VocabLoss_ENABLE_TUNER "Component tuner: launch choices by measurement, kept in a file; needs nlohmann_json" ${VocabLoss_BUILD_APPS})
option(VocabLoss_BUILD_TESTS "Build the unit tests; needs GoogleTest" ${PROJECT_IS_TOP_LEVEL})
option(VocabLoss_BUILD_PERF_TESTS "Build the perf tests; needs Google Benchmark and a Release build" OFF)

set(VocabLoss_DEPENDENCIES "" CACHE PATH "Where bootstrap.sh put Kokkos; Kokkos_ROOT and CMAKE_PREFIX_PATH go first")
