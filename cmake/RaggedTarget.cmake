# ragged_library(NAME SOURCES... [PUBLIC_LINK ...] [PRIVATE_LINK ...]): one component of the library,
# as target ragged_NAME with the alias ragged::NAME.
function(ragged_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;PUBLIC_LINK;PRIVATE_LINK" ${ARGN})
  add_library(ragged_${name} STATIC ${ARG_SOURCES})
  add_library(ragged::${name} ALIAS ragged_${name})
  set_target_properties(ragged_${name} PROPERTIES EXPORT_NAME ${name})
  target_link_libraries(ragged_${name} PUBLIC ${ARG_PUBLIC_LINK} PRIVATE ${ARG_PRIVATE_LINK})
  target_include_directories(ragged_${name} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
    $<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/include>
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  # Rooms see each other's private headers ("visible.hpp", "backends/contract.hpp").
  target_include_directories(ragged_${name} PRIVATE ${PROJECT_SOURCE_DIR}/src)
  ragged_compile_options(ragged_${name})
  set_property(GLOBAL APPEND PROPERTY RAGGED_INSTALL_TARGETS ragged_${name})
endfunction()

# Language level, visibility and warnings of everything that we compile.
function(ragged_compile_options target)
  target_compile_features(${target} PUBLIC cxx_std_20)
  set_target_properties(${target} PROPERTIES
    CXX_EXTENSIONS OFF POSITION_INDEPENDENT_CODE ON
    CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
  target_compile_options(${target} PRIVATE
    $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion
      -Wnon-virtual-dtor -Woverloaded-virtual -Wold-style-cast -Wcast-align -Wimplicit-fallthrough>
    # g++ 12 sees overlap in "x" + std::string at -O3, where there is none.
    $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-restrict>
    $<$<COMPILE_LANGUAGE:C>:-Wall -Wextra -Wpedantic -Wshadow -Wconversion>)
  if(RAGGED_BUILD_FUZZERS)
    # Counts the edges that an input reaches; fuzzers alone bring a main.
    target_compile_options(${target} PRIVATE -fsanitize=fuzzer-no-link)
    target_link_options(${target} PRIVATE -fsanitize=fuzzer-no-link)
  endif()
  if(RAGGED_WERROR)
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:C,CXX>:-Werror>)
  elseif(NOT PROJECT_IS_TOP_LEVEL)
    # A project that embeds us may ask for stricter warnings than ours, as errors.
    set_target_properties(${target} PROPERTIES COMPILE_WARNING_AS_ERROR OFF)
    target_compile_options(${target} PRIVATE -Wno-error)
  endif()
endfunction()
