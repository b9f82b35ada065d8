# CUDA, found and not demanded. The host's C++ compiler links everything, against the static runtime:
# no consumer needs CUDA as a language.
set(ragged_gpu_backends sm90 sm80 flashinfer cudnn)
set(ragged_cudnn_frontend_version 1.32)
# Masks rows without keys; earlier ones give NaN there. Later ones may move what we build on.
set(ragged_flashinfer_version 0.7.4)

# ragged_default_gpu_backends(VARIABLE): where nvcc is found our own GPU backends, and cudnn where its
# headers are; else nothing.
macro(ragged_default_gpu_backends variable)
  set(${variable})
  if(NOT CMAKE_CROSSCOMPILING)
    include(CheckLanguage)
    check_language(CUDA)
    foreach(backend IN ITEMS sm90 sm80)
      if(CMAKE_CUDA_COMPILER AND EXISTS
         ${PROJECT_SOURCE_DIR}/src/backends/${backend}/CMakeLists.txt)
        list(APPEND ${variable} ${backend})
      endif()
    endforeach()
    if(CMAKE_CUDA_COMPILER)
      find_package(CudnnFrontend ${ragged_cudnn_frontend_version} QUIET)
      if(CudnnFrontend_FOUND)
        list(APPEND ${variable} cudnn)
      endif()
    endif()
  endif()
endmacro()

# ragged_require_cudnn(): takes cudnn out of RAGGED_BACKENDS, and says so, where its headers are not
# here.
macro(ragged_require_cudnn)
  if("cudnn" IN_LIST RAGGED_BACKENDS)
    find_package(CudnnFrontend ${ragged_cudnn_frontend_version} QUIET)
    if(NOT CudnnFrontend_FOUND)
      message(WARNING "backend cudnn is not built: cudnn_frontend.h of version "
        "${ragged_cudnn_frontend_version} or newer, or cudnn.h, is not found. `scripts/setup cudnn` brings "
        "the first, CUDA images and the PyPI package nvidia-cudnn-cu13 have the second; "
        "CudnnFrontend_ROOT names a folder that holds either.")
      list(REMOVE_ITEM RAGGED_BACKENDS cudnn)
    endif()
  endif()
endmacro()

# ragged_require_flashinfer(): takes flashinfer out of RAGGED_BACKENDS, and says so, where its headers
# are not here.
macro(ragged_require_flashinfer)
  if("flashinfer" IN_LIST RAGGED_BACKENDS)
    find_package(FlashInferHeaders ${ragged_flashinfer_version} EXACT QUIET)
    if(NOT FlashInferHeaders_FOUND)
      message(WARNING "backend flashinfer is not built: no headers of flashinfer-python "
        "${ragged_flashinfer_version}. `scripts/setup flashinfer` brings them; FlashInferHeaders_ROOT "
        "names the folder of an installed package; docs/flashinfer.md.")
      list(REMOVE_ITEM RAGGED_BACKENDS flashinfer)
    endif()
  endif()
endmacro()

# ragged_enable_cuda(): turns the language on, and RAGGED_CUDA, where a backend is for GPUs.
macro(ragged_enable_cuda)
  foreach(backend IN LISTS ragged_gpu_backends)
    if(backend IN_LIST RAGGED_BACKENDS)
      set(RAGGED_CUDA ON)
    endif()
  endforeach()
  if(RAGGED_CUDA)
    # PTX for every GPU from Ampere on, machine code for Hopper. In CMake's own words, so that a user
    # who builds for one machine says -DCMAKE_CUDA_ARCHITECTURES=native.
    if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
      set(CMAKE_CUDA_ARCHITECTURES 80-virtual 90-real)
    endif()
    enable_language(CUDA)
    find_package(CUDAToolkit 12.0 REQUIRED)
  endif()
endmacro()

# ragged_cuda_sources(TARGET SOURCES... [ARCHITECTURES ...]): compiles the sources with nvcc and adds
# them to a library of ragged_library().
function(ragged_cuda_sources target)
  cmake_parse_arguments(ARG "" "" "SOURCES;ARCHITECTURES" ${ARGN})
  set(objects ${target}_cuda)
  add_library(${objects} OBJECT ${ARG_SOURCES})
  set_target_properties(${objects} PROPERTIES
    CUDA_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON POSITION_INDEPENDENT_CODE ON)
  if(ARG_ARCHITECTURES)
    set_target_properties(${objects} PROPERTIES CUDA_ARCHITECTURES "${ARG_ARCHITECTURES}")
  endif()
  target_include_directories(${objects} PRIVATE ${PROJECT_SOURCE_DIR}/src
    ${PROJECT_SOURCE_DIR}/include ${PROJECT_BINARY_DIR}/include)
  # CMake 3.25 does not know that nvcc speaks C++20.
  target_compile_options(${objects} PRIVATE -std=c++20 --expt-relaxed-constexpr -Xcompiler=-Wall,-Wextra
    $<$<BOOL:${RAGGED_WERROR}>:--Werror=all-warnings>)

  # One object of all: as a file alone it leaves no trace of the language in what links it.
  set(merged ${CMAKE_CURRENT_BINARY_DIR}/${objects}.o)
  add_custom_command(OUTPUT ${merged}
    COMMAND ${CMAKE_LINKER} -r -o ${merged} $<TARGET_OBJECTS:${objects}>
    DEPENDS ${objects} $<TARGET_OBJECTS:${objects}>
    COMMENT "Merging the kernels of ${target}" COMMAND_EXPAND_LISTS VERBATIM)
  set_source_files_properties(${merged} PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
  target_sources(${target} PRIVATE ${merged})
  target_link_libraries(${target} PRIVATE CUDA::cudart_static)
endfunction()
