// Loads a CUDA driver library into a DriverTable.
// SPDX-License-Identifier: Apache-2.0
#include "api/driver_loader.h"

#include <dlfcn.h>

namespace vgpu {

const char* load_driver_table(const char* path, DriverTable* table, void** handle) {
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return dlerror();
  for_each_function(*table, [&](const char* name, void** slot) { *slot = dlsym(library, name); });
  if (table->cuInit == nullptr) return "the library has no cuInit: not a CUDA driver";
  if (handle != nullptr) *handle = library;
  return nullptr;
}

}  // namespace vgpu
