// What the worker has answered about resources of SMs, for green contexts.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SHIM_SM_RESOURCES_H_
#define VGPU_SHIM_SM_RESOURCES_H_

#include <cuda.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <tuple>

#include "wire.h"

namespace vgpu::shim {

// Thread-safe under `mutex`. Programs copy resources and give none back, so that the worker keeps
// all that it has ever named: the same question is asked once.
struct SmResources {
  std::mutex mutex;
  std::map<CUdevice, wire::SmResourceReply> devices;
  // By resource, flags, minimum and room.
  std::map<std::tuple<uint64_t, uint32_t, uint32_t, uint32_t>, wire::SmSplitReply> splits;
  uint64_t next_partition = 1;
};

}  // namespace vgpu::shim

#endif  // VGPU_SHIM_SM_RESOURCES_H_
