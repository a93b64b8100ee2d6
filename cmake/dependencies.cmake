# Who needs what is said beside each. Missing packages: tools/install_dependencies.sh puts them in place.
find_package(Threads REQUIRED)
find_package(CUDAToolkit QUIET)                        # headers for everybody, nvcc for tests/apps
if(NOT CUDAToolkit_FOUND AND NOT VGPU_CUDA_INCLUDE)
  message(FATAL_ERROR "CUDA headers not found. Run tools/install_dependencies.sh, or set -DVGPU_CUDA_INCLUDE=<folder with cuda.h>.")
endif()
if(NOT VGPU_CUDA_INCLUDE)
  set(VGPU_CUDA_INCLUDE "${CUDAToolkit_INCLUDE_DIRS}")
endif()
add_library(vgpu_cuda_headers INTERFACE)               # cuda.h as a system header
target_include_directories(vgpu_cuda_headers SYSTEM INTERFACE ${VGPU_CUDA_INCLUDE})
find_program(VGPU_FLATC flatc REQUIRED)                # protocol: control messages and record structs
