// Libraries and their kernels, which belong to no context: the router's own stand for one of each
// server that has been asked for one.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_ROUTER_LIBRARIES_H_
#define VGPU_ROUTER_LIBRARIES_H_

#include <cuda.h>

#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "base/slot_map.h"
#include "router/server.h"

namespace vgpu::router {

// Like no tag of the guest library's.
inline constexpr uint64_t kSharedKernelTag = 110, kSharedLibraryTag = 111;

struct SharedLibrary;

struct SharedKernel {
  SharedLibrary* library = nullptr;
  std::string name;
  CUkernel handle = nullptr;
  // By server; 0: not asked for yet. Written under Libraries::mutex, with release.
  std::array<std::atomic<uint64_t>, kServersMax> at{};
};

// Where the image comes from when a server needs it later.
struct ImageSource {
  const void* data = nullptr;  // stays where it is, as the program has said
  std::string path;
};

struct SharedLibrary {
  ImageSource source;
  // By server, under Libraries::mutex.
  std::array<CUlibrary, kServersMax> at{};
  std::array<CUresult, kServersMax> failure{};
  std::map<std::string, std::unique_ptr<SharedKernel>> kernels;
};

// Thread-safe. Lasts as long as the process.
class Libraries {
 public:
  static Libraries& instance();

  CUlibrary add(std::unique_ptr<SharedLibrary> library);
  // nullptr: no such library.
  SharedLibrary* find(CUlibrary handle) const;
  // Ends it at every server that has it.
  CUresult unload(CUlibrary handle);
  // Loads it at `server`, unless it is there already.
  CUresult at(Server& server, SharedLibrary* library, CUlibrary* own);
  // The kernel that `server` calls `own`.
  CUresult kernel(Server& server, SharedLibrary* library, CUkernel own, CUkernel* out);
  SharedKernel* find(CUfunction handle) const {
    const auto* found = kernels_.find(reinterpret_cast<uint64_t>(handle));
    return found != nullptr ? *found : nullptr;
  }
  // Finds the kernel at a server where nobody has asked for it yet.
  CUresult at(Server& server, SharedKernel* kernel, CUfunction* own);
  // The router's kernel that stands for a server's; the same handle for one that none stands for.
  CUkernel shared(CUkernel own);
  CUlibrary handle_of(const SharedLibrary* library);

 private:
  CUresult load(Server& server, SharedLibrary* library, CUlibrary* own);

  std::recursive_mutex mutex_;
  SlotMap<SharedKernel*, kSharedKernelTag> kernels_;
  SlotMap<std::unique_ptr<SharedLibrary>, kSharedLibraryTag> libraries_;
  std::map<uint64_t, CUkernel> shared_;  // by the servers' handles
};

inline bool is_shared(CUfunction function) {
  return SlotId::tag(reinterpret_cast<uint64_t>(function)) == kSharedKernelTag;
}

// Replaces the router's handle by the server's. Any other handle stays, for the server to judge.
inline CUresult own_kernel(Server& server, CUfunction* function) {
  SharedKernel* kernel = Libraries::instance().find(*function);
  if (kernel == nullptr) return CUDA_SUCCESS;
  // acquire: partner is the release in Libraries::at.
  const uint64_t known = kernel->at[server.number].load(std::memory_order_acquire);
  if (known == 0) [[unlikely]]
    return Libraries::instance().at(server, kernel, function);
  *function = reinterpret_cast<CUfunction>(known);
  return CUDA_SUCCESS;
}
CUresult own_library(Server& server, CUlibrary* library);

}  // namespace vgpu::router

#endif  // VGPU_ROUTER_LIBRARIES_H_
