// Loads a CUDA driver library into a DriverTable.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "driver_table.h"

namespace vgpu {

// dlopens `path` (RTLD_NOW | RTLD_LOCAL) and fills `table` by name; a function the library lacks
// stays nullptr. Returns nullptr when it worked, else a message that stays valid until the next
// call on this thread. The library is never unloaded: drivers do not survive it. `handle`, when
// given, receives dlopen's handle.
const char* load_driver_table(const char* path, DriverTable* table, void** handle = nullptr);

}  // namespace vgpu
