# Finds what the chosen options need. Nothing is downloaded here: cmake/bootstrap.sh does that.
set(CMAKE_CXX_EXTENSIONS OFF) # before Kokkos is found, else it warns and forces it

# HINTS rank below what the user names (Kokkos_ROOT, CMAKE_PREFIX_PATH) and above what merely lies in the system.
find_package(Kokkos 4.5 QUIET HINTS ${VocabLoss_DEPENDENCIES})
find_package(KokkosKernels QUIET HINTS ${VocabLoss_DEPENDENCIES})
if(NOT Kokkos_FOUND OR NOT KokkosKernels_FOUND)
  message(FATAL_ERROR "VocabLoss needs Kokkos >= 4.5 (found: ${Kokkos_DIR}) and Kokkos Kernels (found: ${KokkosKernels_DIR}). "
                      "Name them with Kokkos_ROOT and KokkosKernels_ROOT, or build them: sh cmake/bootstrap.sh deps [host|cuda]")
endif()
if(NOT KokkosKernels_VERSION VERSION_EQUAL Kokkos_VERSION)
  message(FATAL_ERROR "Kokkos ${Kokkos_VERSION} (${Kokkos_DIR}) and Kokkos Kernels ${KokkosKernels_VERSION} (${KokkosKernels_DIR}) "
                      "do not belong together. Name both with Kokkos_ROOT and KokkosKernels_ROOT.")
endif()
message(STATUS "Kokkos ${Kokkos_VERSION} (${Kokkos_DEVICES}): ${Kokkos_DIR}")

if(VocabLoss_ENABLE_CUDA AND NOT Kokkos_ENABLE_CUDA)
  message(FATAL_ERROR "VocabLoss_ENABLE_CUDA is ON, but Kokkos in ${Kokkos_DIR} was built for ${Kokkos_DEVICES} only. "
                      "Build one with CUDA: sh cmake/bootstrap.sh deps cuda")
endif()
if(VocabLoss_ENABLE_NCCL AND NOT VocabLoss_ENABLE_CUDA)
  message(FATAL_ERROR "VocabLoss_ENABLE_NCCL is ON, but VocabLoss_ENABLE_CUDA is OFF: NCCL moves device memory.")
endif()
include(VocabLossKokkosSources)
if(VocabLoss_ENABLE_CUDA)
  find_package(CUDAToolkit REQUIRED)
endif()
if(VocabLoss_ENABLE_MPI AND EXISTS ${PROJECT_SOURCE_DIR}/src/comm/mpi.cpp)
  set(MPI_CXX_SKIP_MPICXX ON)
  find_package(MPI REQUIRED COMPONENTS CXX)
endif()
if(VocabLoss_ENABLE_NCCL AND EXISTS ${PROJECT_SOURCE_DIR}/src/comm/nccl.cpp)
  find_package(NCCL 2.28 REQUIRED)
endif()

if(VocabLoss_BUILD_APPS)
  find_package(CLI11 REQUIRED)
  find_package(nlohmann_json REQUIRED)
  find_package(fmt REQUIRED)
endif()
if(VocabLoss_BUILD_TESTS)
  find_package(GTest REQUIRED)
endif()
if(VocabLoss_BUILD_PERF_TESTS)
  find_package(benchmark REQUIRED)
endif()
