# vocabloss_kokkos_sources(target...): call it on every target with C++ sources that include Kokkos or VocabLoss. Where Kokkos has the CUDA
# backend these sources must go through nvcc; elsewhere nothing happens. A source that includes neither may say so with the source property
# VOCABLOSS_WITHOUT_KOKKOS and stays C++. Used by the project and, installed, by its users.

# A Kokkos with CUDA needs the language, here as in a user's project that only named CXX.
if(Kokkos_COMPILE_LANGUAGE STREQUAL CUDA)
  if(NOT DEFINED CMAKE_CUDA20_STANDARD_COMPILE_OPTION) # CMake 3.25 does not know nvcc's flag and would silently compile C++17
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
  endif()
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES ${Kokkos_CUDA_ARCHITECTURES})
  endif()
  enable_language(CUDA)
  set(VocabLoss_CUDA_ARCHITECTURES ${Kokkos_CUDA_ARCHITECTURES})
endif()

function(vocabloss_kokkos_sources)
  if(NOT Kokkos_COMPILE_LANGUAGE STREQUAL CUDA)
    return()
  endif()
  foreach(target IN LISTS ARGN)
    get_target_property(sources ${target} SOURCES)
    get_target_property(directory ${target} SOURCE_DIR)
    foreach(source IN LISTS sources)
      get_property(excepted SOURCE ${source} DIRECTORY ${directory} PROPERTY VOCABLOSS_WITHOUT_KOKKOS)
      if(source MATCHES "\\.(cpp|cc|cxx)$" AND NOT excepted)
        set_property(SOURCE ${source} DIRECTORY ${directory} PROPERTY LANGUAGE CUDA)
      endif()
    endforeach()
    # The architecture too: a project that enabled CUDA by itself has nvcc's default, which is not what Kokkos was built for.
    set_target_properties(
      ${target}
      PROPERTIES CUDA_STANDARD 20
                 CUDA_STANDARD_REQUIRED ON
                 CUDA_EXTENSIONS OFF
                 CUDA_RUNTIME_LIBRARY Shared
                 CUDA_ARCHITECTURES "${VocabLoss_CUDA_ARCHITECTURES}")
  endforeach()
endfunction()
