// Memory that graphs allocate: one block for each node that allocates, at one address for good.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>

#include "api/graph/node.h"

namespace vgpu::graph {

struct Exec;

// Lives as long as a node names it, and as long as the program has not freed what a launch left.
struct Memory {
  Memory(CUcontext owner, CUdeviceptr at, size_t size);
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory();  // gives it back, unless it is gone, as soon as the model's lock is free

  const CUcontext context;
  const CUdeviceptr address;
  const size_t bytes;
  // Under the model's lock.
  bool gone = false;  // with its context
};

// Blocks that there are. relaxed: who frees one was told of it.
inline std::atomic<uint32_t> memories_alive{0};

// Parameters of nodes. The first allocates; the second is INVALID_VALUE for what is no graph's.
// With or without the model's lock.
CUresult read_alloc(const CUDA_MEM_ALLOC_NODE_PARAMS& params, CUcontext context, Payload* payload);
CUresult read_free(CUdeviceptr address, Payload* payload);
// Under the lock: a node is added to `graph` that frees this, if it frees anything. INVALID_VALUE
// when another one there does already.
CUresult claim_free(Graph* graph, const Payload& payload);

bool has_memory_nodes(const Graph& graph);  // under the lock
// Under the lock: of a graph that allocates or frees there may be one executable copy.
// NOT_SUPPORTED for a second. The other way round it is told of the copy.
CUresult claim_memory(Graph* graph);
void disclaim_memory(const Graph& copy);

// Around a launch. The first: INVALID_VALUE when it would allocate what is still allocated. The
// second: it was made, and what it allocates and frees is counted. Both take the lock.
CUresult check_launch(const Exec& exec);
void count_launch(const Exec& exec);

// cuMemFree and its like of memory of a graph: what they return. It is free then, for the next
// launch; INVALID_VALUE when no launch has left it allocated. Nothing: it is no graph's. Takes the
// lock.
std::optional<CUresult> free_memory(CUdeviceptr address);

// A context ends, and all of its memory with it: the addresses may be others' from now on.
void forget_memory_of(CUcontext context);

// cuDeviceGetGraphMemAttribute and cuDeviceSetGraphMemAttribute.
CUresult memory_attribute(CUgraphMem_attribute which, uint64_t* value);
CUresult reset_memory_attribute(CUgraphMem_attribute which, uint64_t value);

}  // namespace vgpu::graph
