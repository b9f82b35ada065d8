# Installs the built tree into an empty prefix: cmake -D BUILD=... -D PREFIX=... -P install.cmake
file(REMOVE_RECURSE ${PREFIX})
execute_process(
  COMMAND ${CMAKE_COMMAND} --install ${BUILD} --prefix ${PREFIX} --component development
  COMMAND_ERROR_IS_FATAL ANY)
