# Builds and runs the C program by what pkg-config says of the installed prefix:
#   cmake -D CC=... -D FLAGS=... -D PREFIX=... -D LIBDIR=... -D SOURCE=... -D BINARY=... -P ...
set(ENV{PKG_CONFIG_PATH} ${PREFIX}/${LIBDIR}/pkgconfig)
execute_process(COMMAND pkg-config --cflags --libs ragged_c OUTPUT_VARIABLE found
                OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
separate_arguments(found UNIX_COMMAND "${found}")
separate_arguments(flags UNIX_COMMAND "${FLAGS}")
file(MAKE_DIRECTORY ${BINARY})
execute_process(
  COMMAND ${CC} ${flags} -std=c11 ${SOURCE}/main.c ${SOURCE}/expected.c -o ${BINARY}/consumer
          ${found} -lm
  COMMAND_ERROR_IS_FATAL ANY)
set(ENV{LD_LIBRARY_PATH} ${PREFIX}/${LIBDIR})
execute_process(COMMAND ${BINARY}/consumer COMMAND_ERROR_IS_FATAL ANY)
