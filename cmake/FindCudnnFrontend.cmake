# find_package(CudnnFrontend): headers alone, of cudnn-frontend (CudnnFrontend_INCLUDE_DIR) and of
# cuDNN (CudnnFrontend_CUDNN_INCLUDE_DIR). Looked for in CudnnFrontend_ROOT, in build/cudnn-frontend
# (`scripts/setup cudnn`), in the installed Python packages nvidia-cudnn-frontend and
# nvidia-cudnn-cu13, in the CUDA toolkit, and where the system has headers. Downloads nothing.
function(_ragged_python_folder variable package folder)
  set(${variable} "" PARENT_SCOPE)
  find_program(CudnnFrontend_PYTHON NAMES python3 python)
  mark_as_advanced(CudnnFrontend_PYTHON)
  if(CudnnFrontend_PYTHON)
    execute_process(COMMAND ${CudnnFrontend_PYTHON} -c
      "import importlib.metadata as m; print(m.distribution('${package}').locate_file('${folder}'))"
      OUTPUT_VARIABLE found OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    set(${variable} "${found}" PARENT_SCOPE)
  endif()
endfunction()

if(NOT CudnnFrontend_INCLUDE_DIR)
  _ragged_python_folder(_python_include nvidia-cudnn-frontend include)
endif()
find_path(CudnnFrontend_INCLUDE_DIR cudnn_frontend.h
  HINTS ${CMAKE_CURRENT_LIST_DIR}/../build/cudnn-frontend/include ${_python_include})
if(NOT CudnnFrontend_CUDNN_INCLUDE_DIR)
  _ragged_python_folder(_python_include nvidia-cudnn-cu13 nvidia/cudnn/include)
endif()
find_path(CudnnFrontend_CUDNN_INCLUDE_DIR cudnn.h
  HINTS ${CUDAToolkit_INCLUDE_DIRS} ${_python_include})
unset(_python_include)
mark_as_advanced(CudnnFrontend_INCLUDE_DIR CudnnFrontend_CUDNN_INCLUDE_DIR)

if(CudnnFrontend_INCLUDE_DIR AND EXISTS ${CudnnFrontend_INCLUDE_DIR}/cudnn_frontend_version.h)
  file(STRINGS ${CudnnFrontend_INCLUDE_DIR}/cudnn_frontend_version.h _lines
    REGEX "define CUDNN_FRONTEND_(MAJOR|MINOR|PATCH)_VERSION")
  string(REGEX REPLACE "[^0-9;]" "" CudnnFrontend_VERSION "${_lines}")
  string(REPLACE ";" "." CudnnFrontend_VERSION "${CudnnFrontend_VERSION}")
  unset(_lines)
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(CudnnFrontend
  REQUIRED_VARS CudnnFrontend_INCLUDE_DIR CudnnFrontend_CUDNN_INCLUDE_DIR
  VERSION_VAR CudnnFrontend_VERSION)
