// The driver's state in this process: one object, made by cuInit and never destroyed (calls arrive
// after static destructors). SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "api/ipc/opened_memory.h"
#include "api/managed/managed_ranges.h"
#include "softgpu/api/array_object.h"
#include "softgpu/api/context_object.h"
#include "softgpu/api/handles.h"
#include "softgpu/api/link_object.h"
#include "softgpu/api/module_object.h"
#include "softgpu/api/pools.h"
#include "softgpu/api/stream_object.h"
#include "softgpu/api/texture_object.h"
#include "softgpu/exec/device.h"

namespace vgpu::softgpu {

inline constexpr int kDriverVersion = 13000;
// Ids of contexts: the primary ones', then the created ones'.
inline constexpr uint64_t kPrimaryId = 1, kCreatedId = kPrimaryId + kDevicesMax;

// What a CUmemGenericAllocationHandle names. Kept while the memory is there: whoever asks for the
// handle of an address is given the same one again, even if it had been released.
struct PhysicalHandle {
  int device = 0;
  uint64_t key = 0;
  uint64_t bytes = 0;
  uint64_t handle_types = 0;  // that it may be exported as
  uint32_t references = 1;    // the program's
};

// The value behind a conditional handle. A kernel sets it, the end of that kernel publishes it:
// relaxed. Kernels of one context may.
struct ConditionCell {
  const DeviceServices* kernels;
  std::atomic<uint32_t> value{0};
};

// Contexts; the view of a green one finds the primary context that it is of.
class ContextHandles : public Handles<CUcontext, Context, kContextTag> {
 public:
  std::shared_ptr<Context> find(CUcontext handle) const {
    return Handles::find(green::base_of(handle));
  }
};

class Driver {
 public:
  // The one object. Does nothing by itself: preloading the library is harmless.
  static Driver& instance();

  // cuInit. Thread-safe; later calls return what the first did.
  CUresult initialise();
  // CUDA_SUCCESS, or NOT_INITIALIZED before cuInit and in the child of a fork after it,
  // DEINITIALIZED once the process ends, and NOT_PERMITTED inside a host function.
  CUresult ready() const;

  // Devices as the program sees them; all are alike but for who they are.
  Device& device(int ordinal = 0) { return *devices_[static_cast<size_t>(ordinal)]; }
  Context& primary(int ordinal = 0) { return *primaries_[static_cast<size_t>(ordinal)]; }
  DevicePools& pools() { return *pools_; }
  // 0 when CUDA_VISIBLE_DEVICES hides all.
  int device_count() const { return static_cast<int>(devices_.size()); }

  ContextHandles contexts;
  Handles<CUstream, Stream, kStreamTag> streams;
  Handles<CUevent, Event, kEventTag> events;
  Handles<CUmodule, Module, kModuleTag> modules;
  Handles<CUfunction, Function, kFunctionTag> functions;
  Handles<CUlibrary, Library, kLibraryTag> libraries;
  Handles<CUkernel, Kernel, kKernelTag> kernels;
  Handles<uint64_t*, PhysicalHandle, kPhysicalTag> physical;
  std::mutex virtual_memory;  // held by every call that changes handles, mappings or access
  Handles<CUarray, Array, kArrayTag> arrays;
  Handles<CUmipmappedArray, MipmappedArray, kMipmappedArrayTag> mipmapped_arrays;
  TextureObjects textures;
  ManagedRanges managed;
  OpenedMemory opened;
  Handles<CUlinkState, LinkState, kLinkTag> links;
  Handles<uint64_t, ConditionCell, kConditionTag> conditions;

 private:
  Driver() = default;
  CUresult create_devices();
  static void after_fork_in_child();
  static void at_exit();

  enum State : int { kFresh, kReady, kFailed, kForked, kEnded };
  std::mutex mutex_;
  std::atomic<int> state_{kFresh};  // release by initialise(), acquire by every call
  CUresult failure_ = CUDA_SUCCESS;
  std::vector<std::unique_ptr<Device>> devices_;
  std::unique_ptr<DevicePools> pools_;
  std::vector<std::shared_ptr<Context>> primaries_;  // their ids: kPrimaryId and up
};

// Entry of calls that need a current context: the context, or the native error (not initialised,
// none current, destroyed, sticky).
CUresult enter(Context** context);
// The same, but a sticky error does not matter (destruction, queries of what cannot fail).
CUresult enter_ignoring_errors(Context** context);

// The object behind a stream handle of a call made in `context`: null, legacy, per-thread or
// created. nullptr: no such stream.
std::shared_ptr<Stream> find_stream(Context& context, CUstream handle);

// What memory that is mapped at `address` may be exported as; 0 for all other memory. (vmm.cc)
uint64_t handle_types_at(uint64_t address);

// CUDA_ERROR_INVALID_DEVICE unless `device` is ours; first NOT_INITIALIZED.
CUresult check_device(CUdevice device);

}  // namespace vgpu::softgpu
