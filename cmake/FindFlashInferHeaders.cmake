# Finds the headers of FlashInfer in its PyPI wheel `flashinfer-python`, without importing it.
#
# Looked for in FlashInferHeaders_ROOT (the package's folder, that which holds data/), then in
# build/flashinfer of the project, where `scripts/setup flashinfer` puts them, then in the Python
# that CMake finds. Nothing is fetched. Gives
#   FlashInferHeaders_FOUND, FlashInferHeaders_VERSION
#   FlashInferHeaders_INCLUDE_DIR  flashinfer/
#   FlashInferHeaders_CCCL_DIRS    the CUDA C++ core libraries that they need, newer than a toolkit's
set(_flashinfer_packages ${FlashInferHeaders_ROOT} ${PROJECT_SOURCE_DIR}/build/flashinfer/flashinfer)
if(NOT FlashInferHeaders_ROOT)
  find_package(Python3 QUIET COMPONENTS Interpreter)
  if(Python3_Interpreter_FOUND)
    execute_process(
      COMMAND ${Python3_EXECUTABLE} -c
        "import importlib.util as u; s = u.find_spec('flashinfer'); print(s.submodule_search_locations[0] if s else '', end='')"
      OUTPUT_VARIABLE _flashinfer_installed ERROR_QUIET)
    list(APPEND _flashinfer_packages ${_flashinfer_installed})
  endif()
endif()

find_path(FlashInferHeaders_INCLUDE_DIR flashinfer/attention/prefill.cuh
  HINTS ${_flashinfer_packages} PATH_SUFFIXES data/include NO_DEFAULT_PATH
  DOC "FlashInfer's headers: data/include of the wheel flashinfer-python")
mark_as_advanced(FlashInferHeaders_INCLUDE_DIR)
set(FlashInferHeaders_CCCL_DIRS)
if(FlashInferHeaders_INCLUDE_DIR)
  get_filename_component(_flashinfer_data ${FlashInferHeaders_INCLUDE_DIR} DIRECTORY)
  if(EXISTS ${_flashinfer_data}/cccl/libcudacxx/include/cuda/std/limits)
    set(FlashInferHeaders_CCCL_DIRS ${_flashinfer_data}/cccl/libcudacxx/include
      ${_flashinfer_data}/cccl/cub ${_flashinfer_data}/cccl/thrust)
  endif()
  file(GLOB _flashinfer_info ${_flashinfer_data}/../../flashinfer_python-*.dist-info)
  if(_flashinfer_info MATCHES "flashinfer_python-([0-9][^/]*)\\.dist-info")
    set(FlashInferHeaders_VERSION ${CMAKE_MATCH_1})
  endif()
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(FlashInferHeaders
  REQUIRED_VARS FlashInferHeaders_INCLUDE_DIR FlashInferHeaders_CCCL_DIRS
  VERSION_VAR FlashInferHeaders_VERSION)
