if(VGPU_SANITIZE)
  add_compile_options(-fsanitize=${VGPU_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  if(VGPU_SANITIZE MATCHES undefined)
    add_compile_options(-fno-sanitize=vptr)            # needs RTTI, which most of the tree has not
  endif()
  add_link_options(-fsanitize=${VGPU_SANITIZE})
endif()
