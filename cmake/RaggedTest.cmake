# ragged_test(NAME SOURCES ... LINK ... [LABELS ...]): one GoogleTest program; every test in it is a
# ctest of its own, labelled `cpu` unless said otherwise, run from the project's root so that data
# paths are relative to it. Labels that mean something to scripts/test: `threads` (run under the
# thread sanitizer); `large`, `timing` and `package` (left out under sanitizers and emulation).
find_package(GTest REQUIRED)
include(GoogleTest)

function(ragged_test name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK;LABELS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_LINK} GTest::gtest_main)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/tests)
  ragged_compile_options(${name})
  if(NOT ARG_LABELS)
    set(ARG_LABELS cpu)
  endif()
  gtest_discover_tests(${name}
    WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}
    DISCOVERY_TIMEOUT 60
    TEST_LIST ${name}_tests
    PROPERTIES TIMEOUT 300)
  # Labels come after the discovery, whose own properties cannot hold a list.
  set(labels_file ${CMAKE_CURRENT_BINARY_DIR}/${name}_labels.cmake)
  file(WRITE ${labels_file}
    "if(${name}_tests)\n  set_tests_properties(\${${name}_tests} PROPERTIES LABELS \"${ARG_LABELS}\")\nendif()\n")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${labels_file})
endfunction()
