// Finding the server of an address, and refusing what would need two.
// SPDX-License-Identifier: Apache-2.0
#include "router/place.h"

#include "base/log.h"

namespace vgpu::router {

// By the ranges that only one server has, else by asking: the current context's server first, as
// addresses that drivers have chosen may be known to two.
Memory memory_at(uint64_t address) {
  Servers* servers = Servers::attached();
  Memory memory;
  for (Server& server : servers->all()) {
    if (!server.owns(address)) continue;
    memory.server = &server;
    memory.kind = server.library->knows(address, &memory.context);
    if (memory.kind == KnownMemory::kNone) memory.kind = KnownMemory::kDevice;  // freed
    return memory;
  }
  const auto ask = [&](Server& server) {
    memory.kind = server.library->knows(address, &memory.context);
    if (memory.kind != KnownMemory::kNone) memory.server = &server;
    return memory.server != nullptr;
  };
  if (t_current != nullptr && ask(*t_current)) return memory;
  for (Server& server : servers->all()) {
    if (&server != t_current && ask(server)) break;
  }
  return memory;
}

Place by_address(CUdeviceptr address) {
  if (Servers::attached() == nullptr) return {CUDA_ERROR_NOT_INITIALIZED};
  if (t_current != nullptr && t_current->owns(address)) [[likely]]
    return {CUDA_SUCCESS, t_current};
  const Memory memory = memory_at(address);
  if (memory.server == nullptr || memory.server == t_current) return by_current();
  if (!visit(memory.server, memory.context) && t_current != nullptr) return by_current();
  return {CUDA_SUCCESS, memory.server};
}

Place by_graph(CUgraph graph) {
  const Place at = by_handle(graph);
  if (at.result == CUDA_SUCCESS && t_current != nullptr && at.server != t_current)
    return {refuse_across("a graph with nodes of another server's context")};
  return at;
}

CUresult refuse_across(const char* what) {
  log_once(what, LogLevel::kWarn, "%s: not supported between servers", what);
  return CUDA_ERROR_NOT_SUPPORTED;
}

}  // namespace vgpu::router
