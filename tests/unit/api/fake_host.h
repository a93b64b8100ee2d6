// A host library for the tests of cudart/: one device, contexts that are plain numbers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstring>

#include "api/cudart/host.h"

namespace vgpu::cudart::test {

struct FakeHost {
  CUcontext current = nullptr;
  int devices = 1;
  int version = 13000;
  int bus = 3;
  char uuid_byte = 7;

  static FakeHost& instance() {
    static FakeHost host;
    return host;
  }

  // Puts this host in place with its first state.
  static FakeHost& install() {
    instance() = FakeHost{};
    set_host(&kFunctions);
    return instance();
  }

  static const Host kFunctions;
};

inline CUcontext context(uintptr_t number) { return reinterpret_cast<CUcontext>(number); }

inline const Host FakeHost::kFunctions = {
    .current_context = +[](CUcontext* out) -> CUresult {
      *out = instance().current;
      return CUDA_SUCCESS;
    },
    .primary_context = +[](CUcontext* out, CUdevice device) -> CUresult {
      if (device >= instance().devices) return CUDA_ERROR_INVALID_DEVICE;
      *out = context(0x1000);
      return CUDA_SUCCESS;
    },
    .context_id = +[](CUcontext c, uint64_t* id) -> CUresult {
      *id = reinterpret_cast<uintptr_t>(c) + 1;
      return CUDA_SUCCESS;
    },
    .driver_version = +[]() -> int { return instance().version; },
    .device_count = +[]() -> int { return instance().devices; },
    .device_identity = +[](int, CUuuid* uuid, int* domain, int* bus, int* device) -> CUresult {
      std::memset(uuid, instance().uuid_byte, sizeof *uuid);
      *domain = 0;
      *bus = instance().bus;
      *device = 0;
      return CUDA_SUCCESS;
    },
    .each_kernel =
        +[](CUmodule, void (*visit)(void*, CUfunction, uint64_t), void* user) -> uint64_t {
      visit(user, reinterpret_cast<CUfunction>(0x77), 0);
      return 1;
    },
    .load_module = +[](CUmodule* module, const void* image) -> CUresult {
      *module = static_cast<CUmodule>(const_cast<void*>(image));
      return CUDA_SUCCESS;
    },
};

}  // namespace vgpu::cudart::test
