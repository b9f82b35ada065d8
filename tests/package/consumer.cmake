# Configures, builds and runs one consumer project as a user would, from an empty build folder:
#   cmake -D SOURCE=... -D BINARY=... -D GENERATOR=... -D SETTINGS=... -P consumer.cmake
# SETTINGS: a cache script with the outer build's compilers and flags.
function(step)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE result
                  OUTPUT_VARIABLE output ERROR_VARIABLE output)
  message("${output}")
  if(NOT result EQUAL 0)
    list(JOIN ARGN " " text)
    message(FATAL_ERROR "ended with ${result}: ${text}")
  endif()
endfunction()

file(REMOVE_RECURSE ${BINARY})
step(${CMAKE_COMMAND} -S ${SOURCE} -B ${BINARY} -G ${GENERATOR} -C ${SETTINGS})
step(${CMAKE_COMMAND} --build ${BINARY})
step(${BINARY}/consumer)
