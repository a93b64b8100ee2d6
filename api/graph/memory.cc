// Allocation nodes own their memory; launches only say when it counts as allocated.
// SPDX-License-Identifier: Apache-2.0
#include "api/graph/memory.h"

#include <algorithm>
#include <map>
#include <mutex>

#include "api/graph/backend.h"
#include "api/graph/exec.h"

namespace vgpu::graph {
namespace {

struct Memories {
  std::mutex all_mutex;
  std::map<CUdeviceptr, std::weak_ptr<Memory>> all;     // some expired; under all_mutex
  std::map<CUdeviceptr, std::shared_ptr<Memory>> live;  // launched, and not freed since
  uint64_t used = 0, used_high = 0;

  static Memories& instance() {
    static Memories* const memories = new Memories();
    return *memories;
  }
  void add(const std::shared_ptr<Memory>& memory) {
    std::lock_guard lock(all_mutex);
    std::erase_if(all, [](const auto& each) { return each.second.expired(); });
    all[memory->address] = memory;
  }
  std::shared_ptr<Memory> find(CUdeviceptr address) {
    std::lock_guard lock(all_mutex);
    const auto found = all.find(address);
    return found == all.end() ? nullptr : found->second.lock();
  }
  void begin(const std::shared_ptr<Memory>& memory) {
    if (!live.emplace(memory->address, memory).second) return;
    used += memory->bytes;
    used_high = std::max(used_high, used);
  }
  bool end(CUdeviceptr address) {
    const auto found = live.find(address);
    if (found == live.end()) return false;
    used -= found->second->bytes;
    live.erase(found);
    return true;
  }
};

std::atomic<uint64_t> reserved{0}, reserved_high{0};  // figures

}  // namespace

Memory::Memory(CUcontext owner, CUdeviceptr at, size_t size)
    : context(owner), address(at), bytes(size) {
  memories_alive.fetch_add(1, std::memory_order_relaxed);
  const uint64_t now = reserved.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  uint64_t high = reserved_high.load(std::memory_order_relaxed);
  while (high < now && !reserved_high.compare_exchange_weak(high, now, std::memory_order_relaxed)) {
  }
}

Memory::~Memory() {
  memories_alive.fetch_sub(1, std::memory_order_relaxed);
  reserved.fetch_sub(bytes, std::memory_order_relaxed);
  Model& model = Model::instance();
  std::lock_guard lock(model.mutex);
  if (!gone) model.mutex.later([owner = context, at = address] { backend().release(owner, at); });
}

CUresult read_alloc(const CUDA_MEM_ALLOC_NODE_PARAMS& params, CUcontext context, Payload* payload) {
  const CUmemPoolProps& pool = params.poolProps;
  if (params.bytesize == 0 || pool.allocType != CU_MEM_ALLOCATION_TYPE_PINNED ||
      pool.location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
      (params.accessDescCount != 0 && params.accessDescs == nullptr) ||
      backend().check_device(pool.location.id) != CUDA_SUCCESS) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (pool.handleTypes != CU_MEM_HANDLE_TYPE_NONE) return CUDA_ERROR_NOT_SUPPORTED;
  AllocPayload alloc;
  alloc.params = params;
  alloc.params.accessDescs = nullptr;
  alloc.params.accessDescCount = 0;
  const CUresult r = backend().allocate(context, params.bytesize, &alloc.params.dptr);
  if (r != CUDA_SUCCESS) return r;
  alloc.memory = std::make_shared<Memory>(context, alloc.params.dptr, params.bytesize);
  Memories::instance().add(alloc.memory);
  *payload = std::move(alloc);
  return CUDA_SUCCESS;
}

CUresult read_free(CUdeviceptr address, Payload* payload) {
  FreePayload free{address, Memories::instance().find(address)};
  if (free.memory == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *payload = std::move(free);
  return CUDA_SUCCESS;
}

CUresult claim_free(Graph* graph, const Payload& payload) {
  const auto* free = std::get_if<FreePayload>(&payload);
  const bool again = free != nullptr && !graph->frees.insert(free->address).second;
  return again ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

bool has_memory_nodes(const Graph& graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [](const auto& node) {
    return std::holds_alternative<AllocPayload>(node->payload) ||
           std::holds_alternative<FreePayload>(node->payload);
  });
}

CUresult claim_memory(Graph* graph) {
  if (!has_memory_nodes(*graph)) return CUDA_SUCCESS;
  if (graph->instantiated) return CUDA_ERROR_NOT_SUPPORTED;
  graph->instantiated = true;
  return CUDA_SUCCESS;
}

void disclaim_memory(const Graph& copy) {
  const std::shared_ptr<Graph>* original = Model::instance().graphs.find(copy.original);
  if (original != nullptr) (*original)->instantiated = false;
}

CUresult check_launch(const Exec& exec) {
  const bool frees = (exec.flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH) != 0;
  if (!exec.has_memory || frees) return CUDA_SUCCESS;
  std::lock_guard lock(Model::instance().mutex);
  const Memories& memories = Memories::instance();
  for (const auto& node : exec.graph->nodes) {
    const auto* alloc = std::get_if<AllocPayload>(&node->payload);
    if (alloc != nullptr && memories.live.count(alloc->memory->address) != 0)
      return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

void count_launch(const Exec& exec) {
  if (!exec.has_memory) return;
  std::lock_guard lock(Model::instance().mutex);
  Memories& memories = Memories::instance();
  for (const Step& step : exec.plan.steps) {
    if (step.node == nullptr) continue;
    if (const auto* alloc = std::get_if<AllocPayload>(&step.node->payload))
      memories.begin(alloc->memory);
    if (const auto* free = std::get_if<FreePayload>(&step.node->payload))
      (void)memories.end(free->address);
  }
}

std::optional<CUresult> free_memory(CUdeviceptr address) {
  if (memories_alive.load(std::memory_order_relaxed) == 0) return std::nullopt;
  const std::shared_ptr<Memory> memory = Memories::instance().find(address);
  if (memory == nullptr) return std::nullopt;
  std::lock_guard lock(Model::instance().mutex);
  return Memories::instance().end(address) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

void forget_memory_of(CUcontext context) {
  if (memories_alive.load(std::memory_order_relaxed) == 0) return;
  Memories& memories = Memories::instance();
  std::lock_guard lock(Model::instance().mutex);
  std::lock_guard lock_all(memories.all_mutex);
  std::erase_if(memories.all, [&](const auto& each) {
    const std::shared_ptr<Memory> memory = each.second.lock();
    if (memory == nullptr) return true;
    if (memory->context != context) return false;
    memory->gone = true;
    (void)memories.end(memory->address);
    return true;
  });
}

CUresult memory_attribute(CUgraphMem_attribute which, uint64_t* value) {
  std::lock_guard lock(Model::instance().mutex);
  const Memories& memories = Memories::instance();
  switch (which) {
    case CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT:
      *value = memories.used;
      return CUDA_SUCCESS;
    case CU_GRAPH_MEM_ATTR_USED_MEM_HIGH:
      *value = memories.used_high;
      return CUDA_SUCCESS;
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT:
      *value = reserved.load(std::memory_order_relaxed);
      return CUDA_SUCCESS;
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH:
      *value = reserved_high.load(std::memory_order_relaxed);
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult reset_memory_attribute(CUgraphMem_attribute which, uint64_t value) {
  if (value != 0) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(Model::instance().mutex);
  Memories& memories = Memories::instance();
  switch (which) {
    case CU_GRAPH_MEM_ATTR_USED_MEM_HIGH:
      memories.used_high = memories.used;
      return CUDA_SUCCESS;
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH:
      reserved_high.store(reserved.load(std::memory_order_relaxed), std::memory_order_relaxed);
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

}  // namespace vgpu::graph
