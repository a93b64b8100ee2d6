// User objects: what lives as long as a graph that uses it.
// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>
#include <cudaProfiler.h>

#include <climits>

#include "api/graph/exec.h"
#include "driver_functions.h"

namespace vgpu::driver {

using graph::Graph;
using graph::Model;
using graph::UserObject;

namespace {

bool valid_count(unsigned count) { return count != 0 && count <= INT_MAX; }

UserObject* find(CUuserObject handle) {
  Model& model = Model::instance();
  return model.user_objects.find(model.id(handle));
}

}  // namespace

CUresult cuUserObjectCreate(CUuserObject* out, void* pointer, CUhostFn destroy, unsigned int count,
                            unsigned int flags) {
  if (const CUresult r = graph::backend().ready(); r != CUDA_SUCCESS) return r;
  if (out == nullptr || destroy == nullptr || !valid_count(count) ||
      flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  Model& model = Model::instance();
  std::lock_guard lock(model.mutex);
  const uint64_t id = model.user_objects.insert(UserObject{pointer, destroy, count});
  if (id == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  *out = reinterpret_cast<CUuserObject>(model.bits(id));
  return CUDA_SUCCESS;
}

CUresult cuUserObjectRetain(CUuserObject handle, unsigned int count) {
  if (const CUresult r = graph::backend().ready(); r != CUDA_SUCCESS) return r;
  std::lock_guard lock(Model::instance().mutex);
  UserObject* object = find(handle);
  if (object == nullptr || !valid_count(count)) return CUDA_ERROR_INVALID_VALUE;
  object->count += count;
  return CUDA_SUCCESS;
}

CUresult cuUserObjectRelease(CUuserObject handle, unsigned int count) {
  if (const CUresult r = graph::backend().ready(); r != CUDA_SUCCESS) return r;
  std::lock_guard lock(Model::instance().mutex);
  const UserObject* object = find(handle);
  if (object == nullptr || !valid_count(count) || count > object->count)
    return CUDA_ERROR_INVALID_VALUE;
  Model::instance().release(Model::instance().id(handle), count);
  return CUDA_SUCCESS;
}

CUresult cuGraphRetainUserObject(CUgraph graph, CUuserObject handle, unsigned int count,
                                 unsigned int flags) {
  if (const CUresult r = graph::backend().ready(); r != CUDA_SUCCESS) return r;
  Model& model = Model::instance();
  std::lock_guard lock(model.mutex);
  Graph* found = model.find_graph(graph);
  UserObject* object = find(handle);
  if (found == nullptr || object == nullptr || !valid_count(count) ||
      (flags & ~unsigned{CU_GRAPH_USER_OBJECT_MOVE}) != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if ((flags & CU_GRAPH_USER_OBJECT_MOVE) == 0) object->count += count;
  found->user_objects[model.id(handle)] += count;
  return CUDA_SUCCESS;
}

CUresult cuGraphReleaseUserObject(CUgraph graph, CUuserObject handle, unsigned int count) {
  if (const CUresult r = graph::backend().ready(); r != CUDA_SUCCESS) return r;
  Model& model = Model::instance();
  std::lock_guard lock(model.mutex);
  Graph* found = model.find_graph(graph);
  const uint64_t id = model.id(handle);
  if (found == nullptr || !valid_count(count)) return CUDA_ERROR_INVALID_VALUE;
  const auto held = found->user_objects.find(id);
  if (held == found->user_objects.end() || held->second < count) return CUDA_ERROR_INVALID_VALUE;
  held->second -= count;
  if (held->second == 0) found->user_objects.erase(held);
  model.release(id, count);
  return CUDA_SUCCESS;
}

}  // namespace vgpu::driver
