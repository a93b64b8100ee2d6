// Loading images and finding functions: what modules and libraries have in common.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SHIM_MODULE_TABLE_H_
#define VGPU_SHIM_MODULE_TABLE_H_

#include <string>
#include <string_view>

#include "shim/process.h"

namespace vgpu::shim {

// Options of the just-in-time compiler that the channel carries; the rest is accepted and has no
// effect.
struct LoadOptions {
  uint32_t max_registers = 0;
  int32_t optimization_level = -1;
  char* info_log = nullptr;
  char* error_log = nullptr;
  size_t info_bytes = 0, error_bytes = 0;
  void** info_filled = nullptr;  // where the program is told how much there is
  void** error_filled = nullptr;
};
// Writes a log as a driver does: cut, with its NUL, and how many bytes that are.
void put_log(std::string_view text, char* log, size_t bytes, void** filled);
LoadOptions read_options(unsigned count, const CUjit_option* options, void** values);

// The context in which a call about a device runs that names no context: the current one if it is
// of that device, else the primary one, made ready.
inline constexpr CUdevice kAnyDevice = -1;
CUresult context_for(Session& session, CUdevice device, Context** context);

// Sends `image` and makes a module of `context` (null: a library) out of it. *id is the handle.
CUresult load_image(Session& session, Context* context, const void* image,
                    const LoadOptions& options, uint64_t* id);
CUresult read_image_file(const char* path, std::string* bytes);
// The same from a file.
CUresult load_file(Session& session, Context* context, const char* path, const LoadOptions& options,
                   uint64_t* id);
// Ends a module or library with its functions and globals.
void unload(Session& session, Module* module);
// Ends what a context had loaded.
void forget_modules(Session& session, Context* context);

// The CUfunction or CUkernel of kernel `index`, the same at every call; 0 when there is no memory.
uint64_t function_handle(Session& session, Module* module, uint64_t owner, uint32_t index,
                         bool kernel);
// A CUfunction, or a CUkernel used as one; null for anything else.
inline Function* find_function(Session& session, CUfunction handle) {
  Function* function = session.functions.find(id_of(handle));
  return function != nullptr ? function : session.kernels.find(id_of(handle));
}
// A module, or the library behind a module that cuLibraryGetModule made.
Module* find_module(Session& session, CUmodule handle);

CUresult find_global(Session& session, Context* context, Module* module, const char* name,
                     CUdeviceptr* address, size_t* bytes);

}  // namespace vgpu::shim

#endif  // VGPU_SHIM_MODULE_TABLE_H_
