# Script: cmake -DSOURCE= -DVERSION= -DOUTPUT= -P this. Writes version.hpp, and touches it only when something changed.
set(GIT_REVISION unknown)
find_program(git git)
if(git)
  execute_process(
    COMMAND ${git} describe --always --dirty --abbrev=12 --exclude=*
    WORKING_DIRECTORY ${SOURCE}
    OUTPUT_VARIABLE described
    OUTPUT_STRIP_TRAILING_WHITESPACE
    ERROR_QUIET
    RESULT_VARIABLE failed)
  if(NOT failed)
    set(GIT_REVISION ${described})
  endif()
endif()
configure_file(${SOURCE}/cmake/version.hpp.in ${OUTPUT} @ONLY)
