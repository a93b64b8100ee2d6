# Every option, with one line of reason.
option(VGPU_CUDART_VALIDITY "Answer libcudart's self-test (see README, limits): programs linked with cudart need it" ON)
option(VGPU_BUILD_TESTS "Build the tests" ON)
option(VGPU_BUILD_FUZZERS "Build the libFuzzer targets (clang only)" OFF)
option(VGPU_WERROR "Warnings are errors (CI)" OFF)
set(VGPU_SANITIZE "" CACHE STRING "Sanitizers: empty, 'address,undefined' or 'thread'")

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE RelWithDebInfo)
endif()

find_program(VGPU_CCACHE ccache)
if(VGPU_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER "${CMAKE_COMMAND}" -E env
      "CCACHE_BASEDIR=${CMAKE_SOURCE_DIR}" CCACHE_NOHASHDIR=1 "${VGPU_CCACHE}")
endif()
