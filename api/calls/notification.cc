// Callbacks for a process that has more device memory than its budget. Here the budget is a limit:
// an allocation beyond it fails, so none is ever exceeded and no callback has a reason to come.
// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>
#include <cudaProfiler.h>

#include <mutex>

#include "api/graph/backend.h"
#include "base/slot_map.h"
#include "driver_functions.h"

namespace vgpu::driver {
namespace {

// A registered callback. Its function is never called, so only the device is kept.
struct Registration {
  CUdevice device = 0;
};

struct Registrations {
  static constexpr uint64_t kTag = 100;  // like no handle of either library

  static Registrations& instance() {
    static Registrations* const registrations = new Registrations();  // NOLINT: calls come at exit
    return *registrations;
  }
  std::mutex mutex;
  SlotMap<Registration, kTag> map;
};

}  // namespace

CUresult cuDeviceRegisterAsyncNotification(CUdevice device, CUasyncCallback function, void*,
                                           CUasyncCallbackHandle* handle) {
  if (const CUresult r = graph::backend().check_device(device); r != CUDA_SUCCESS) return r;
  if (function == nullptr || handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Registrations& all = Registrations::instance();
  std::lock_guard lock(all.mutex);
  const uint64_t id = all.map.insert();
  if (id == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  all.map.find(id)->device = device;
  *handle = reinterpret_cast<CUasyncCallbackHandle>(id);
  return CUDA_SUCCESS;
}

CUresult cuDeviceUnregisterAsyncNotification(CUdevice device, CUasyncCallbackHandle handle) {
  if (const CUresult r = graph::backend().check_device(device); r != CUDA_SUCCESS) return r;
  Registrations& all = Registrations::instance();
  std::lock_guard lock(all.mutex);
  const auto id = reinterpret_cast<uint64_t>(handle);
  const Registration* found = all.map.find(id);
  if (found == nullptr || found->device != device) return CUDA_ERROR_INVALID_VALUE;
  all.map.remove(id);
  return CUDA_SUCCESS;
}

}  // namespace vgpu::driver
