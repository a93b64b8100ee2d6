# The API generator: everything made from api/spec lands in ${CMAKE_BINARY_DIR}/generated.
find_package(Python3 3.11 REQUIRED COMPONENTS Interpreter)
set(VGPU_GENERATED_DIR "${CMAKE_BINARY_DIR}/generated")
file(GLOB VGPU_SPEC_FILES CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/api/spec/*.toml" "${CMAKE_SOURCE_DIR}/api/codegen/*.py")
set(VGPU_GENERATED_FILES "")
foreach(name op.h wire.h commands.fbs driver_functions.h driver_table.h driver_recorder.h shim_entry.inc softgpu_entry.inc
        shim_symbols.inc softgpu_symbols.inc exports.map signature_check.cc shim_generated.inc server_dispatch.inc
        server_handlers.h router_dispatch.inc server_table.h trace_print.inc symbol_names.inc wire_check.inc op_shapes.inc)
  list(APPEND VGPU_GENERATED_FILES "${VGPU_GENERATED_DIR}/${name}")
endforeach()
add_custom_command(
  OUTPUT "${VGPU_GENERATED_DIR}/generated.stamp"
  BYPRODUCTS ${VGPU_GENERATED_FILES}
  COMMAND Python3::Interpreter "${CMAKE_SOURCE_DIR}/api/codegen/generate.py" --out "${VGPU_GENERATED_DIR}"
  DEPENDS ${VGPU_SPEC_FILES}
  COMMENT "Generating the API from api/spec")
add_custom_target(vgpu_generated DEPENDS "${VGPU_GENERATED_DIR}/generated.stamp")
