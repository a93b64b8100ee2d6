if(VGPU_SANITIZE)
  add_compile_options(-fsanitize=${VGPU_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  if(VGPU_SANITIZE MATCHES undefined)
    add_compile_options(-fno-sanitize=vptr)            # needs RTTI, which most of the tree has not
    # CUDA's enumerations are C's: callers and peers may put any number into one, we compare and refuse
    # it, and without -fstrict-enums the compilers take nothing for granted there.
    add_compile_options(-fno-sanitize=enum)
  endif()
  add_link_options(-fsanitize=${VGPU_SANITIZE})
endif()
