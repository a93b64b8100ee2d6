# Who needs what is said beside each. Missing packages: tools/install_dependencies.sh puts them in place.
find_package(Threads REQUIRED)
find_program(VGPU_FLATC flatc REQUIRED)                # protocol: control messages and record structs

# CUDA headers for everybody, nvcc for tests/apps. The same order as in the installer: what the user
# says, nvcc on PATH, the usual folder, NVIDIA's wheels in build/cuda-toolkit.
set(VGPU_CUDA_ROOT "$ENV{VGPU_CUDA_ROOT}" CACHE PATH "CUDA toolkit to use; empty: look for one")
set(VGPU_CUDA_INCLUDE "" CACHE PATH "Folder with cuda.h, when there is no whole toolkit")
if(NOT VGPU_CUDA_INCLUDE)
  find_program(VGPU_NVCC_ON_PATH nvcc NO_CACHE)
  if(VGPU_NVCC_ON_PATH)
    file(REAL_PATH "${VGPU_NVCC_ON_PATH}" nvcc_file)
    get_filename_component(nvcc_folder "${nvcc_file}" DIRECTORY)
    get_filename_component(nvcc_root "${nvcc_folder}" DIRECTORY)
  endif()
  foreach(root "${VGPU_CUDA_ROOT}" "$ENV{CUDA_HOME}" "${nvcc_root}" /usr/local/cuda
          "${CMAKE_SOURCE_DIR}/build/cuda-toolkit")
    if(root AND EXISTS "${root}/include/cuda.h" AND NOT VGPU_CUDA_INCLUDE)
      set(VGPU_CUDA_INCLUDE "${root}/include")
      set(VGPU_CUDA_FOUND_ROOT "${root}")
    endif()
  endforeach()
endif()
if(NOT EXISTS "${VGPU_CUDA_INCLUDE}/cuda.h")
  message(FATAL_ERROR "CUDA headers not found. Run tools/install_dependencies.sh, or set "
    "-DVGPU_CUDA_ROOT=<toolkit> or -DVGPU_CUDA_INCLUDE=<folder with cuda.h>.")
endif()
# nvml.h for nvml/: not in every toolkit, and not in NVIDIA's wheels of the compiler.
set(VGPU_NVML_INCLUDE "" CACHE PATH "Folder with nvml.h of CUDA 13.0 or newer; empty: look for one")
if(NOT VGPU_NVML_INCLUDE)
  foreach(folder "${VGPU_CUDA_INCLUDE}" "${CMAKE_SOURCE_DIR}/build/nvml")
    if(EXISTS "${folder}/nvml.h" AND NOT VGPU_NVML_INCLUDE)
      set(VGPU_NVML_INCLUDE "${folder}")
    endif()
  endforeach()
endif()
find_program(VGPU_NVCC nvcc HINTS "${VGPU_CUDA_FOUND_ROOT}/bin")
message(STATUS "CUDA headers: ${VGPU_CUDA_INCLUDE}; nvcc: ${VGPU_NVCC}")
add_library(vgpu_cuda_headers INTERFACE)               # cuda.h as a system header
target_include_directories(vgpu_cuda_headers SYSTEM INTERFACE "${VGPU_CUDA_INCLUDE}")
