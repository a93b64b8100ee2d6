# vgpu_target(<target> [THROWS]): the house's warnings and language rules for one target.
# THROWS: this target uses libraries that throw (tools and the edges of the server only).
function(vgpu_target target)
  cmake_parse_arguments(ARG "THROWS" "" "" ${ARGN})
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wshadow -Wnon-virtual-dtor)
  if(VGPU_WERROR)
    target_compile_options(${target} PRIVATE -Werror)
  endif()
  if(NOT ARG_THROWS)
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-fno-exceptions -fno-rtti>)
  endif()
  target_include_directories(${target} PRIVATE "${CMAKE_SOURCE_DIR}" "${CMAKE_BINARY_DIR}/generated")
endfunction()
