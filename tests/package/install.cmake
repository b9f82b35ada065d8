# Installs the built tree into an empty prefix, its licence with it:
#   cmake -D BUILD=... -D PREFIX=... -D LICENSE=... -P install.cmake
file(REMOVE_RECURSE ${PREFIX})
execute_process(
  COMMAND ${CMAKE_COMMAND} --install ${BUILD} --prefix ${PREFIX} --component development
  COMMAND_ERROR_IS_FATAL ANY)
if(NOT EXISTS ${LICENSE})
  message(FATAL_ERROR "not installed: ${LICENSE}")
endif()
