// Handles of graphs, nodes, executable graphs and user objects: one table for the process.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>

#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "api/graph/node.h"
#include "base/slot_map.h"

namespace vgpu::graph {

struct Exec;

enum HandleTag : uint64_t {
  kGraphTag = 0x20,
  kNodeTag = 0x21,
  kExecTag = 0x22,  // ids of executable graphs go to the worker as they are
  kUserObjectTag = 0x23,
};

struct UserObject {
  void* pointer = nullptr;
  CUhostFn destroy = nullptr;
  uint64_t count = 0;
};

// A thread may lock it again, so that a graph can end wherever its last owner lets go of it.
class ModelMutex {
 public:
  void lock();
  void unlock();
  // While it is locked: what to do as soon as it is free, on the thread that frees it. For what
  // may wait or is the program's.
  void later(std::function<void()> work) { later_.push_back(std::move(work)); }

 private:
  std::recursive_mutex mutex_;
  int depth_ = 0;
  std::vector<std::function<void()>> later_;
};

// Never destroyed. `mutex` guards all of it and every graph; what may wait happens without it.
struct Model {
  static Model& instance();

  ModelMutex mutex;
  SlotMap<std::shared_ptr<Graph>, kGraphTag> graphs;  // null: of a parent's node
  SlotMap<Node*, kNodeTag> nodes;
  SlotMap<std::shared_ptr<Exec>, kExecTag> execs;
  SlotMap<UserObject, kUserObjectTag> user_objects;
  SlotMap<Graph*, kGraphTag + 8> children;  // graphs inside of nodes
  bool odd_handles = false;                 // handles that are not aligned, for tests

  Graph* find_graph(CUgraph handle) const;
  Node* find_node(CUgraphNode handle) const;
  std::shared_ptr<Exec> find_exec(CUgraphExec handle) const;

  // False when the object is gone.
  bool retain(uint64_t object, uint64_t count);
  // The last reference ends the object: its destructor is called as soon as the lock is free.
  void release(uint64_t object, uint64_t count);

  uint64_t bits(uint64_t id) const { return odd_handles && id != 0 ? id | 5 : id; }
  uint64_t id(const void* handle) const {
    const auto value = reinterpret_cast<uint64_t>(handle);
    return odd_handles && (value & 15) == 5 ? value & ~uint64_t{15} : value;
  }
  CUgraph handle_of(const Graph& graph) const { return reinterpret_cast<CUgraph>(bits(graph.id)); }
  CUgraphNode handle_of(const Node& node) const {
    return reinterpret_cast<CUgraphNode>(bits(node.id));
  }
};

}  // namespace vgpu::graph
