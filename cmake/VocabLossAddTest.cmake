# vocabloss_add_test(NAME <name> SOURCES <file>... [RANKS <n>...] [LABELS <label>...] [LIBS <target>...] [ARGS <arg>...]
#                    [ENVIRONMENT <name=value>...] [TIMEOUT <seconds>])
#   Executable test_<name>, and the ctest <name>; with RANKS one ctest <name>_np<n> per count, through the launcher CMake found, so that
#   srun drops in. LABELS default to unit; mpi is added with RANKS. gpu marks what needs a device.
# vocabloss_add_perf_test(...): the same arguments; executable <name>, label perf, runs alone on all cores.
#
# Tests are registered whole, not case by case: listing cases would start the program at build time, which CUDA programs cannot do on a
# machine without a driver.
function(vocabloss_add_test)
  cmake_parse_arguments(arg "PERF" "NAME;TIMEOUT" "SOURCES;RANKS;LABELS;LIBS;ARGS;ENVIRONMENT" ${ARGN})
  if(arg_UNPARSED_ARGUMENTS OR NOT arg_NAME OR NOT arg_SOURCES)
    message(FATAL_ERROR "vocabloss_add_test: needs NAME and SOURCES; got '${ARGN}'")
  endif()
  if(arg_RANKS AND NOT TARGET VocabLoss::mpi)
    message(STATUS "test ${arg_NAME} left out: it needs the component mpi")
    return()
  endif()
  if(arg_PERF)
    list(APPEND arg_LABELS perf)
  elseif(NOT arg_LABELS)
    set(arg_LABELS unit)
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 600)
  endif()

  set(target test_${arg_NAME})
  if(arg_PERF)
    set(target ${arg_NAME})
  endif()
  add_executable(${target} ${arg_SOURCES})
  target_link_libraries(${target} PRIVATE VocabLoss::VocabLoss ${arg_LIBS})
  vocabloss_kokkos_sources(${target})

  set(environment OMP_PROC_BIND=false ${arg_ENVIRONMENT})
  if(NOT arg_RANKS)
    # Unit tests take two threads whatever the machine has: threaded, the same everywhere, and ctest -j can count them. Perf tests take all.
    set(threads OMP_NUM_THREADS=2)
    if(arg_PERF)
      set(threads "")
    endif()
    add_test(NAME ${arg_NAME} COMMAND ${target} ${arg_ARGS})
    set_tests_properties(${arg_NAME} PROPERTIES LABELS "${arg_LABELS}" TIMEOUT ${arg_TIMEOUT} PROCESSORS 2 RUN_SERIAL ${arg_PERF}
                                                ENVIRONMENT "${threads};${environment}")
  endif()
  if(CMAKE_CXX_FLAGS MATCHES "-fsanitize=[a-z,]*address")
    list(APPEND environment ASAN_OPTIONS=detect_leaks=0) # for ranks only: MPI libraries leak from plugins they unload
  endif()
  foreach(ranks IN LISTS arg_RANKS)
    set(name ${arg_NAME}_np${ranks})
    add_test(NAME ${name} COMMAND ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} ${ranks} ${MPIEXEC_PREFLAGS} $<TARGET_FILE:${target}>
                                  ${MPIEXEC_POSTFLAGS} ${arg_ARGS})
    if(ranks GREATER MPIEXEC_MAX_NUMPROCS)
      message(STATUS "test ${name} runs more ranks than the ${MPIEXEC_MAX_NUMPROCS} cores of this machine")
    endif()
    set_tests_properties(${name} PROPERTIES LABELS "${arg_LABELS};mpi" TIMEOUT ${arg_TIMEOUT} PROCESSORS ${ranks} RUN_SERIAL ${arg_PERF}
                                            ENVIRONMENT "OMP_NUM_THREADS=1;${environment}")
  endforeach()
endfunction()

function(vocabloss_add_perf_test)
  vocabloss_add_test(PERF ${ARGN})
endfunction()
