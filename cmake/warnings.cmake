# vgpu_target(<target> [THROWS]): the house's warnings and language rules for one target.
# THROWS: this target uses libraries that throw (tools and the edges of the server only).
function(vgpu_target target)
  cmake_parse_arguments(ARG "THROWS" "" "" ${ARGN})
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wshadow -Wnon-virtual-dtor)
  # g++ 12 at -O3 sees uninitialised members in std::variant and overlapping copies in std::string where there are none.
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    target_compile_options(${target} PRIVATE -Wno-maybe-uninitialized -Wno-restrict)
  endif()
  if(VGPU_WERROR)
    target_compile_options(${target} PRIVATE -Werror)
  endif()
  if(NOT ARG_THROWS)
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-fno-exceptions -fno-rtti>)
  endif()
  target_include_directories(${target} PRIVATE "${CMAKE_SOURCE_DIR}" "${CMAKE_BINARY_DIR}/generated")
endfunction()
