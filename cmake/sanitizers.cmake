if(VGPU_SANITIZE)
  add_compile_options(-fsanitize=${VGPU_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${VGPU_SANITIZE})
endif()
