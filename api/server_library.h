// What a guest of several servers asks of each server's copy of the guest library: its router's way
// in, through cuGetExportTable. Within one build only, so nothing here has versions.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>

#include <cstdint>
#include <cstring>

namespace vgpu {

// Servers that one guest may have. At the limit the guest is refused.
inline constexpr uint32_t kServersMax = 8;

// What a copy is told before its cuInit.
struct ServerSettings {
  const char* address;  // as VGPU_SERVER; outlives the call only
  uint32_t number;      // of the copy, from 0: what it mints carries it
  const char* folder;   // of the file that it is a copy of, where the network's plug-in lies
};

// Device addresses that nobody else has, and host memory that the server has in place; 0 bytes:
// none of that kind.
struct ServerRanges {
  uint64_t device_base, device_bytes;
  uint64_t host_base, host_bytes;
};

enum class KnownMemory : uint8_t { kNone, kDevice, kHost };

// All callable from any thread, also when the process ends.
struct ServerLibrary {
  // INVALID_VALUE after cuInit. Devices are all that the server shares, whatever
  // CUDA_VISIBLE_DEVICES says; failed calls are not logged: the router does both.
  CUresult (*configure)(const ServerSettings*);
  int (*is_lost)();  // of an attached one: the server is gone, or has ended the session
  void (*ranges)(ServerRanges*);
  // `preferred` when it is alive, else any context that is; null: there is none.
  CUcontext (*some_context)(CUcontext preferred);
  // The handle only, as libcudart asks for it.
  CUresult (*primary_context)(CUcontext*, CUdevice);
  // Whether this is memory that the copy knows; *context: of whom, null: of none.
  KnownMemory (*knows)(CUdeviceptr, CUcontext* context);
};

// The table's name. No driver of others' has it.
inline CUuuid server_library_id() {
  CUuuid id;
  std::memcpy(id.bytes, "vGPU copy of one", sizeof(id.bytes));
  return id;
}

}  // namespace vgpu
