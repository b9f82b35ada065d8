# What `cmake --install` puts where, all in the component `development`: the headers, the component
# libraries, what find_package(ragged) and pkg-config read, and the licence.
include(CMakePackageConfigHelpers)

set(ragged_cmake_dir ${CMAKE_INSTALL_LIBDIR}/cmake/ragged)
get_property(ragged_targets GLOBAL PROPERTY RAGGED_INSTALL_TARGETS)

install(TARGETS ${ragged_targets} EXPORT ragged-targets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development
    NAMELINK_COMPONENT development)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/ragged ${PROJECT_BINARY_DIR}/include/ragged
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development
  FILES_MATCHING PATTERN "*.hpp" PATTERN "*.h")
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT development)
install(EXPORT ragged-targets NAMESPACE ragged::
  DESTINATION ${ragged_cmake_dir} COMPONENT development)

# Packages that a static component names in its link interface, found again by whoever links it;
# Threads always. `ragged_pc_requires` says the same to pkg-config.
set(ragged_dependencies Threads)
set(ragged_pc_requires)
set(ragged_pc_libs)
foreach(target IN LISTS ragged_targets)
  get_target_property(type ${target} TYPE)
  if(NOT type STREQUAL "STATIC_LIBRARY")
    continue()
  endif()
  list(PREPEND ragged_pc_libs -l${target})
  get_target_property(links ${target} LINK_LIBRARIES)
  if("${links}" MATCHES "hwy::hwy")
    list(APPEND ragged_dependencies hwy)
    list(APPEND ragged_pc_requires libhwy)
  endif()
  if("${links}" MATCHES "CUDA::cudart_static")
    list(APPEND ragged_dependencies CUDAToolkit)
    set(ragged_pc_cuda -L${CUDAToolkit_LIBRARY_DIR} -lcudart_static -ldl -lrt)
  endif()
endforeach()
list(REMOVE_DUPLICATES ragged_dependencies)
list(REMOVE_DUPLICATES ragged_pc_requires)
list(TRANSFORM ragged_dependencies REPLACE "(.+)" "find_dependency(\\1)")
list(JOIN ragged_dependencies "\n  " ragged_find_dependencies)
list(JOIN ragged_pc_requires " " ragged_pc_requires)
list(APPEND ragged_pc_libs ${ragged_pc_cuda})
list(JOIN ragged_pc_libs " " ragged_pc_libs)

configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/ragged-config.cmake.in
  ${PROJECT_BINARY_DIR}/ragged-config.cmake
  INSTALL_DESTINATION ${ragged_cmake_dir} NO_SET_AND_CHECK_MACRO)
# Before 1.0 a minor version may change the interface.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/ragged-config-version.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/ragged-config.cmake
              ${PROJECT_BINARY_DIR}/ragged-config-version.cmake
  DESTINATION ${ragged_cmake_dir} COMPONENT development)

# Relative to the .pc file, so that an installed tree can be moved.
file(RELATIVE_PATH ragged_pc_prefix /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
set(ragged_packages ragged)
if(TARGET ragged_c)
  list(APPEND ragged_packages ragged_c)
endif()
foreach(package IN LISTS ragged_packages)
  configure_file(${PROJECT_SOURCE_DIR}/cmake/${package}.pc.in
                 ${PROJECT_BINARY_DIR}/${package}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/${package}.pc
    DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT development)
endforeach()
