# What `cmake --install` puts where. tests/cli/install_test.py installs to a temporary prefix and runs from there.
# vgpud, vgpu-worker, their unit and example configuration: server/CMakeLists.txt.
include(CMakePackageConfigHelpers)

install(TARGETS vgpu RUNTIME DESTINATION bin)
install(TARGETS vgpu-bench-guest vgpu-bench-share vgpu_null_driver
        RUNTIME DESTINATION lib/vgpu/bench LIBRARY DESTINATION lib/vgpu/bench)
if(TARGET vgpu-bench-softgpu)
  install(TARGETS vgpu-bench-softgpu RUNTIME DESTINATION lib/vgpu/bench)
endif()
if(TARGET vgpu_shim)
  install(TARGETS vgpu_shim LIBRARY DESTINATION lib/vgpu/guest)
endif()
if(TARGET vgpu_softgpu)
  install(TARGETS vgpu_softgpu LIBRARY DESTINATION lib/vgpu/softgpu)
endif()
# The demo's programs, where they have been built.
install(DIRECTORY "${CMAKE_BINARY_DIR}/tests/apps/" DESTINATION lib/vgpu/apps
        USE_SOURCE_PERMISSIONS
        FILES_MATCHING REGEX "/(vecadd|matmul|reduce|histogram|mandelbrot|bitonic|streams)$"
        PATTERN "CMakeFiles" EXCLUDE)
install(FILES "${CMAKE_SOURCE_DIR}/LICENSE" DESTINATION share/doc/vgpu)
install(FILES "${CMAKE_SOURCE_DIR}/README.md" DESTINATION share/doc/vgpu OPTIONAL)
install(DIRECTORY "${CMAKE_SOURCE_DIR}/docs/" DESTINATION share/doc/vgpu/docs
        FILES_MATCHING PATTERN "*.md" PATTERN "monitoring/*.yml" PATTERN "monitoring/*.json")

# find_package(vgpu): paths and imported targets for other projects.
configure_package_config_file("${CMAKE_SOURCE_DIR}/cmake/vgpuConfig.cmake.in"
  "${CMAKE_BINARY_DIR}/cmake/vgpuConfig.cmake" INSTALL_DESTINATION lib/cmake/vgpu
  NO_CHECK_REQUIRED_COMPONENTS_MACRO)
write_basic_package_version_file("${CMAKE_BINARY_DIR}/cmake/vgpuConfigVersion.cmake"
  COMPATIBILITY SameMinorVersion)
install(FILES "${CMAKE_BINARY_DIR}/cmake/vgpuConfig.cmake"
              "${CMAKE_BINARY_DIR}/cmake/vgpuConfigVersion.cmake" DESTINATION lib/cmake/vgpu)
