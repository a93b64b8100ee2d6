// Where a call goes: found by its stream, its first handle, its device, its address, or the current
// context. The generated half of the router is made of these.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_ROUTER_PLACE_H_
#define VGPU_ROUTER_PLACE_H_

#include <cuda.h>

#include <type_traits>

#include "base/slot_map.h"
#include "router/libraries.h"
#include "router/thread.h"

namespace vgpu::router {

// A server, or why there is none.
struct Place {
  CUresult result = CUDA_SUCCESS;
  Server* server = nullptr;

  const ServerTable* operator->() const { return &server->driver; }
  // A device's number there; none that is known there for another server's.
  CUdevice local(CUdevice number) const {
    const DevicePlace* place = Servers::attached()->device(number);
    return place != nullptr && place->server == server ? place->local : CU_DEVICE_INVALID;
  }
  // The server's number of a device, in the program's numbers.
  CUresult as_ours(CUresult call, CUdevice* device) const {
    if (call == CUDA_SUCCESS) *device = Servers::attached()->number_of(*server, *device);
    return call;
  }
  // The server's number of an object, which is another's of another server.
  CUresult as_ours(CUresult call, unsigned long long* id) const {
    if (call == CUDA_SUCCESS) *id |= SlotId::of_owner(server->number);
    return call;
  }
  // What the server has in the place of something that all have.
  CUresult own(CUfunction* function) const {
    return is_shared(*function) ? own_kernel(*server, function) : CUDA_SUCCESS;
  }
  CUresult own(CUkernel* kernel) const {
    return own_kernel(*server, reinterpret_cast<CUfunction*>(kernel));
  }
  CUresult own(CUlibrary* library) const { return own_library(*server, library); }
};

// Whose handle this is. A handle that nobody gave out is the first server's to refuse.
template <typename Handle>
Server* owner_of(Handle handle) {
  Servers* servers = Servers::attached();
  Server* found = servers->at(SlotId::owner(reinterpret_cast<uint64_t>(handle)));
  return found != nullptr ? found : servers->at(0);
}

// The copies are there; nothing need be attached.
inline Place first() {
  Servers* servers = Servers::loaded();
  if (servers == nullptr) return {CUDA_ERROR_NO_DEVICE};
  return {CUDA_SUCCESS, servers->at(0)};
}

inline Place by_current() {
  if (t_current != nullptr) [[likely]]
    return {CUDA_SUCCESS, t_current};
  Servers* servers = Servers::attached();
  if (servers == nullptr) return {CUDA_ERROR_NOT_INITIALIZED};
  return {CUDA_SUCCESS, servers->at(0)};
}

// Of `server`, which need not be that of the current context.
inline Place there(Server* server) {
  if (server != t_current) [[unlikely]]
    (void)visit(server);
  return {CUDA_SUCCESS, server};
}

// What belongs to a context is not alive where none is: the current context's server refuses it.
template <typename Handle>
inline constexpr bool kIsOfContext =
    std::is_same_v<Handle, CUstream> || std::is_same_v<Handle, CUevent> ||
    std::is_same_v<Handle, CUmodule> || std::is_same_v<Handle, CUarray> ||
    std::is_same_v<Handle, CUmipmappedArray> || std::is_same_v<Handle, CUfunction>;

template <typename Handle>
Place of_owner(Handle handle) {
  if (handle == nullptr) return by_current();
  if (Servers::attached() == nullptr) return {CUDA_ERROR_NOT_INITIALIZED};
  Server* server = owner_of(handle);
  if (server == t_current) [[likely]]
    return {CUDA_SUCCESS, server};
  const bool any = visit(server);
  return {CUDA_SUCCESS, any || !kIsOfContext<Handle> || t_current == nullptr ? server : t_current};
}

template <typename Handle>
Place by_handle(Handle handle) {
  return of_owner(handle);
}
// A kernel of a library runs where it is asked to.
inline Place by_handle(CUfunction function) {
  return is_shared(function) ? by_current() : of_owner(function);
}

// The default streams are the current context's.
inline Place by_stream(CUstream stream) {
  const bool is_default =
      stream == nullptr || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD;
  return is_default ? by_current() : by_handle(stream);
}

inline Place by_device(CUdevice number) {
  Servers* servers = Servers::attached();
  if (servers == nullptr) return {CUDA_ERROR_NOT_INITIALIZED};
  const DevicePlace* place = servers->device(number);
  return place == nullptr ? Place{CUDA_ERROR_INVALID_DEVICE} : there(place->server);
}

// What an address is, as far as any server knows. Nobody's: the program's own memory.
struct Memory {
  Server* server = nullptr;
  KnownMemory kind = KnownMemory::kNone;
  CUcontext context = nullptr;  // null: of none, or freed
  bool on_device() const { return kind == KnownMemory::kDevice; }
};
Memory memory_at(uint64_t address);
// Whether it is memory of another server's device.
inline bool is_foreign(const Place& at, CUdeviceptr address) {
  const Memory memory = memory_at(address);
  return memory.on_device() && memory.server != at.server;
}

// Memory of no server is the current context's to judge.
Place by_address(CUdeviceptr address);

// Nodes that are made belong to the current context: that must be of the graph's server.
Place by_graph(CUgraph graph);
// What a graph's nodes name must be of the graph's server, too.
CUresult refuse_across(const char* what);

}  // namespace vgpu::router

#endif  // VGPU_ROUTER_PLACE_H_
