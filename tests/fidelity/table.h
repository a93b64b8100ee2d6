// Rows of wrong calls, and the world they are made in.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_TESTS_FIDELITY_TABLE_H_
#define VGPU_TESTS_FIDELITY_TABLE_H_

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "driver_table.h"

namespace vgpu::fidelity {

// What the calling thread has done before the call. Rows of one state share a process.
enum State : int {
  kFresh,      // cuInit was not called
  kNoContext,  // cuInit was; no context is current
  kReady,      // the primary context is current; the world's objects exist
  kInactive,   // the primary context is current and was never retained
  kDead,       // a destroyed context is current
  kFault,      // a kernel of the current context has touched an address that does not exist
  kForked,     // the child of a fork whose parent was ready
  kStates,
};

// Where the expected code comes from.
enum Source : int {
  kDocumented,  // CUDA's reference of the driver API (cuda.h)
  kConfirmed,   // observed on NVIDIA's driver
  kOurs,        // undefined there (a crash is allowed): what this project promises
};

inline constexpr CUresult kOk = CUDA_SUCCESS;
inline constexpr CUresult kValue = CUDA_ERROR_INVALID_VALUE;
inline constexpr CUresult kHandle = CUDA_ERROR_INVALID_HANDLE;
inline constexpr CUresult kContext = CUDA_ERROR_INVALID_CONTEXT;
inline constexpr CUresult kDestroyed = CUDA_ERROR_CONTEXT_IS_DESTROYED;
inline constexpr CUresult kDevice = CUDA_ERROR_INVALID_DEVICE;
inline constexpr CUresult kNotInit = CUDA_ERROR_NOT_INITIALIZED;
inline constexpr CUresult kNotFound = CUDA_ERROR_NOT_FOUND;
inline constexpr CUresult kNotSupported = CUDA_ERROR_NOT_SUPPORTED;
inline constexpr CUresult kNotReady = CUDA_ERROR_NOT_READY;
inline constexpr CUresult kNoMemory = CUDA_ERROR_OUT_OF_MEMORY;
inline constexpr CUresult kClusterSize = CUDA_ERROR_INVALID_CLUSTER_SIZE;
inline constexpr CUresult kIllegal = CUDA_ERROR_ILLEGAL_ADDRESS;

// Objects that rows use; null before the state that has them. Outputs go to the short-named fields.
struct World {
  // Of `memory` and `pinned`; no multiple of what allocations are rounded to, so that nothing
  // begins where they end.
  static constexpr size_t kBytes = 65536 - 64;

  const DriverTable* cu = nullptr;
  CUdevice device = 0;
  CUcontext context = nullptr, other = nullptr, destroyed = nullptr;
  CUmodule module = nullptr, unloaded = nullptr, other_module = nullptr;
  CUfunction fill = nullptr, poke = nullptr, sum = nullptr, lost_function = nullptr;
  CUfunction other_function = nullptr;
  CUlibrary library = nullptr, lost_library = nullptr;
  CUkernel kernel = nullptr, lost_kernel = nullptr;
  CUstream stream = nullptr, stale_stream = nullptr, other_stream = nullptr;
  CUevent event = nullptr, stale_event = nullptr, recorded = nullptr, untimed = nullptr;
  CUevent other_event = nullptr;
  CUdeviceptr memory = 0, freed = 0;
  void *pinned = nullptr, *registered = nullptr;
  std::vector<char> pageable;  // kBytes, and room to register some

  CUdeviceptr p = 0, p2 = 0;
  size_t size = 0, size2 = 0;
  int i = 0, i2 = 0;
  unsigned u = 0;
  unsigned long long ull = 0;  // NOLINT(google-runtime-int): the driver's type
  float ms = 0;
  const char* text = nullptr;
  char name[64] = {};
  void* v = nullptr;
  CUdevice d = 0;
  CUcontext c = nullptr;
  CUmodule m = nullptr;
  CUfunction f = nullptr;
  CUlibrary l = nullptr;
  CUkernel k = nullptr;
  CUstream s = nullptr;
  CUevent e = nullptr;
  CUgraph g = nullptr;
  CUgraphExec x = nullptr;
  CUgraphConditionalHandle handle = 0;
  CUlinkState link = nullptr;
  CUuuid uuid = {};
  CUdevprop properties = {};
  CUfunc_cache cache = CU_FUNC_CACHE_PREFER_NONE;
  CUsharedconfig banks = CU_SHARED_MEM_CONFIG_DEFAULT_BANK_SIZE;
  CUmoduleLoadingMode mode = CU_MODULE_EAGER_LOADING;
  CUfunctionLoadingState loaded = CU_FUNCTION_LOADING_STATE_UNLOADED;
  CUstreamAttrValue attribute = {};
  CUlaunchConfig config = {};

  // The device's attribute, 0 when it cannot be had.
  int device_attribute(CUdevice_attribute which) const;
  // A launch of `fill` over no words, with correct arguments but those given.
  CUresult launch(CUfunction function, CUstream on, unsigned grid, unsigned block,
                  unsigned shared_bytes) const;
  // A handle that nobody gave out; readable behind.
  template <typename Handle>
  static Handle garbage() {
    alignas(64) static uint64_t bytes[64] = {0x1234567812345678};
    return reinterpret_cast<Handle>(bytes);
  }
};

struct Row {
  State state;
  CUresult want;
  Source source;
  const char* call;
  CUresult (*run)(World&);
};

// Brings the calling thread into the state. Returns nullptr, or what went wrong.
const char* enter_state(State state, World* world);
const char* state_name(State state);

struct Family {
  const char* name;
  std::span<const Row> rows;
};
std::span<const Family> families();

// Defined by the file of the family.
extern const std::span<const Row> kCaptureRows, kConditionalRows, kContextRows, kDeviceRows,
    kErrorRows, kEventRows, kGraphRows, kGreenRows, kHostRows, kInitRows, kIpcRows, kLaunchRows,
    kLibraryRows, kLinkRows, kManagedRows, kMemcpyRows, kMemoryRows, kMempoolRows, kMemsetRows,
    kModuleRows, kLogsRows, kOccupancyRows, kPeerRows, kPointerRows, kStreamRows, kTensorRows,
    kVmmRows;

}  // namespace vgpu::fidelity

// One call of the driver's table; its text is the row's name. `w` is the world.
#define ROW(state, want, source, ...)                                            \
  ::vgpu::fidelity::Row {                                                        \
    state, want, source, #__VA_ARGS__,                                           \
        [](::vgpu::fidelity::World& w) -> CUresult { return w.cu->__VA_ARGS__; } \
  }
// Several calls; the row's result is what the body returns.
#define STEPS(state, want, source, name, ...)                                    \
  ::vgpu::fidelity::Row {                                                        \
    state, want, source, name,                                                   \
        []([[maybe_unused]] ::vgpu::fidelity::World & w) -> CUresult __VA_ARGS__ \
  }

#endif  // VGPU_TESTS_FIDELITY_TABLE_H_
