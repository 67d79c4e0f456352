# Script of the test install_consumer: installs the build tree BUILD into a fresh prefix, builds the consumer against it with COMPONENTS,
# runs it, and asks for a component that does not exist, which must be refused with its name.
function(run)
  execute_process(COMMAND ${ARGV} COMMAND_ECHO STDOUT COMMAND_ERROR_IS_FATAL ANY)
endfunction()

file(REMOVE_RECURSE ${SCRATCH})
set(prefix ${SCRATCH}/prefix)
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${prefix})

set(configure ${CMAKE_COMMAND} -G ${GENERATOR} -S ${CMAKE_CURRENT_LIST_DIR} -DCMAKE_PREFIX_PATH=${prefix} -DCMAKE_CXX_COMPILER=${COMPILER}
              -DCMAKE_CXX_FLAGS=${FLAGS} -DCMAKE_BUILD_TYPE=${BUILD_TYPE})
run(${configure} -B ${SCRATCH}/build -DCONSUMER_COMPONENTS=${COMPONENTS})
run(${CMAKE_COMMAND} --build ${SCRATCH}/build)
if(NOT LANGUAGE STREQUAL CUDA)
  run(${SCRATCH}/build/consumer)
endif()

execute_process(
  COMMAND ${configure} -B ${SCRATCH}/refused -DCONSUMER_COMPONENTS=teapot
  RESULT_VARIABLE failed
  OUTPUT_QUIET
  ERROR_VARIABLE message)
if(NOT failed OR NOT message MATCHES "there is no component[ \n]+'teapot'")
  message(FATAL_ERROR "an unknown component was not refused by name:\n${message}")
endif()
