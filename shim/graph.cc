// What graphs and capture (api/graph) ask of the guest's half.
// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>

#include <cstring>

#include "api/graph/backend.h"
#include "shim/capture_hooks.h"
#include "shim/graph_commands.h"
#include "shim/graph_exec.h"
#include "shim/graph_source.h"
#include "shim/kernel_use.h"
#include "shim/memory_operation.h"
#include "shim/module_table.h"

namespace vgpu::shim {
namespace {

class GraphBackend final : public graph::Backend {
 public:
  CUresult ready() override {
    Session* session;
    return shim::enter(&session);
  }

  CUresult enter(CUcontext* current) override {
    Session* session;
    Context* context;
    const CUresult r = shim::enter(&session, &context);
    if (r == CUDA_SUCCESS) *current = context->handle();
    return r;
  }

  CUresult check_device(CUdevice device) override {
    Session* session;
    if (CUresult r = shim::enter(&session); r != CUDA_SUCCESS) return r;
    return session->device(device) == nullptr ? CUDA_ERROR_INVALID_DEVICE : CUDA_SUCCESS;
  }

  CUresult find_stream(CUstream handle, graph::StreamKey* key) override {
    Session* session;
    Context* context;
    if (CUresult r = shim::enter(&session, &context); r != CUDA_SUCCESS) return r;
    StreamRef stream;
    const CUresult r = find_any_stream(*session, handle, &stream, &context);
    if (r == CUDA_SUCCESS) *key = key_of(*context, stream);
    return r;
  }

  CUresult check_kernel(graph::KernelPayload* kernel) override {
    Session* session;
    Context* context;
    if (CUresult r = shim::enter(&session, &context); r != CUDA_SUCCESS) return r;
    CUDA_KERNEL_NODE_PARAMS_v2& p = kernel->params;
    const CUfunction handle = p.func != nullptr ? p.func : reinterpret_cast<CUfunction>(p.kern);
    const Function* function = find_function(*session, handle);
    if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (function->context != nullptr) {
      context = function->context;
    } else if (p.ctx != nullptr) {
      if (CUresult r = find_context(*session, p.ctx, &context); r != CUDA_SUCCESS) return r;
    }
    Shape shape = shape_of(*kernel);
    shape.cluster_later = true;
    Kernel* used = nullptr;
    CUresult r = use_kernel(*session, context, *function, &used);
    if (r == CUDA_SUCCESS) r = check_shape(*session, context->device, handle, *used, shape);
    const void* buffer = nullptr;
    size_t bytes = 0;
    if (r == CUDA_SUCCESS)
      r = measure_params(*function->kernel, p.kernelParams, p.extra, &buffer, &bytes);
    if (r != CUDA_SUCCESS) return r;
    kernel->packed.resize(bytes);
    if (buffer != nullptr) {
      std::memcpy(kernel->packed.data(), buffer, bytes);
    } else if (p.kernelParams != nullptr) {
      pack_params(kernel->packed.data(), *function->kernel, p.kernelParams);
    }
    for (const Param& param : function->kernel->params)
      kernel->layout.push_back({param.offset, param.bytes});
    p.ctx = context->handle();
    p.kernelParams = nullptr;
    p.extra = nullptr;
    return CUDA_SUCCESS;
  }

  CUresult check_copy(const graph::CopyPayload& copy) override {
    Session* session;
    Context* context;
    if (CUresult r = shim::enter(&session, &context); r != CUDA_SUCCESS) return r;
    if (CUresult r = find_context(*session, copy.context, &context); r != CUDA_SUCCESS) return r;
    RectCopy rect;
    const PlaceScope scope{context, context};
    Place to, from;
    CUresult r = to_rect(&copy.params, pitch_max(*session, *context), &rect);
    if (r == CUDA_SUCCESS) r = locate(*session, scope, rect, rect.to, &to);
    if (r == CUDA_SUCCESS) r = locate(*session, scope, rect, rect.from, &from);
    if (r != CUDA_SUCCESS) return r;
    return to.texel_bytes != 0 && from.texel_bytes != 0 && to.texel_bytes != from.texel_bytes
               ? CUDA_ERROR_INVALID_VALUE
               : CUDA_SUCCESS;
  }

  CUresult check_fill(const graph::FillPayload& fill) override {
    Session* session;
    Context* context;
    if (CUresult r = shim::enter(&session, &context); r != CUDA_SUCCESS) return r;
    if (CUresult r = find_context(*session, fill.params.ctx, &context); r != CUDA_SUCCESS) return r;
    return shim::check_fill(*session, fill.params);
  }

  CUresult check_event(CUevent event) override {
    Session* session;
    if (CUresult r = shim::enter(&session); r != CUDA_SUCCESS) return r;
    return session->events.find(id_of(event)) == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
  }

  CUresult check_operations(const graph::OperationsPayload& operations) override {
    Session* session;
    Context* context;
    if (CUresult r = shim::enter(&session, &context); r != CUDA_SUCCESS) return r;
    if (CUresult r = find_context(*session, operations.context, &context); r != CUDA_SUCCESS)
      return r;
    if (operations.flags != 0) return CUDA_ERROR_INVALID_VALUE;
    StreamMemoryOperation read[kStreamMemoryOperationsMax];
    return read_operations(*session, *context, static_cast<unsigned>(operations.operations.size()),
                           operations.operations.data(), read);
  }

  CUresult check_host() override {
    constexpr int kDriverVersionMin = 11070;  // graphs that wait for values
    Session* session;
    if (CUresult r = shim::enter(&session); r != CUDA_SUCCESS) return r;
    return session->hello().driver_version < kDriverVersionMin ? CUDA_ERROR_NOT_SUPPORTED
                                                               : CUDA_SUCCESS;
  }

  CUresult allocate(CUcontext handle, size_t bytes, CUdeviceptr* address) override {
    Session* session;
    Context* context;
    if (CUresult r = shim::enter(&session); r != CUDA_SUCCESS) return r;
    if (CUresult r = find_context(*session, handle, &context); r != CUDA_SUCCESS) return r;
    uint64_t place = 0;
    shim::DeviceMemory& memory = session->memory_of(*context);
    CUresult r = memory.allocate(bytes, context->id, &place);
    if (r == CUDA_ERROR_OUT_OF_MEMORY && session->pools()->give_back(context->device)) [[unlikely]]
      r = memory.allocate(bytes, context->id, &place);
    *address = place;
    return r;
  }

  CUresult make_conditional(std::shared_ptr<graph::ConditionalSource>* source,
                            graph::Conditional* conditional) override {
    Session* session;
    Context* context;
    if (CUresult r = shim::enter(&session); r != CUDA_SUCCESS) return r;
    if (CUresult r = find_context(*session, conditional->context, &context); r != CUDA_SUCCESS)
      return r;
    return shim::make_conditional(session, context, source, conditional);
  }

  bool reached_by_device(const graph::CopyPayload& copy) override {
    Session* session;
    Context* context;
    Place to, from;
    RectCopy rect;
    if (shim::enter(&session) != CUDA_SUCCESS ||
        find_context(*session, copy.context, &context) != CUDA_SUCCESS ||
        to_rect(&copy.params, pitch_max(*session, *context), &rect) != CUDA_SUCCESS) {
      return false;
    }
    const PlaceScope scope{context, context};
    const auto reached = [](const Place& place) {
      return place.kind == Place::kDevice || place.kind == Place::kInPlace;
    };
    return locate(*session, scope, rect, rect.to, &to) == CUDA_SUCCESS &&
           locate(*session, scope, rect, rect.from, &from) == CUDA_SUCCESS && reached(to) &&
           reached(from);
  }

  // Used again only when what was launched is past.
  void release(CUcontext handle, CUdeviceptr address) override {
    Session* session;
    Context* context;
    if (shim::enter(&session) == CUDA_SUCCESS &&
        find_context(*session, handle, &context) == CUDA_SUCCESS) {
      (void)session->memory().free(address, false);
    }
  }

  std::string kernel_name(const graph::KernelPayload& kernel) override {
    Session* session;
    if (shim::enter(&session) != CUDA_SUCCESS) return "";
    const auto& p = kernel.params;
    const Function* function =
        find_function(*session, p.func != nullptr ? p.func : reinterpret_cast<CUfunction>(p.kern));
    return function == nullptr ? "" : function->kernel->name;
  }

  CUresult instantiate(uint64_t id, const graph::Plan& plan, uint64_t flags,
                       std::unique_ptr<graph::ExecBackend>* exec) override {
    Session* session;
    Context* context;
    if (CUresult r = shim::enter(&session, &context); r != CUDA_SUCCESS) return r;
    CUcontext owner = context->handle();
    CUresult r = graph::context_of(plan, &owner);
    if (r == CUDA_SUCCESS) r = find_context(*session, owner, &context);
    if (r != CUDA_SUCCESS) return r;
    auto made = std::make_unique<GraphExec>(
        session, context, id, plan, (flags & CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY) != 0);
    r = made->instantiate(flags);
    if (r == CUDA_SUCCESS) *exec = std::move(made);
    return r;
  }

 private:
  static CUresult find_context(Session& session, CUcontext handle, Context** context) {
    *context = session.contexts().find(handle);
    return *context != nullptr && (*context)->active.load(std::memory_order_acquire)
               ? CUDA_SUCCESS
               : CUDA_ERROR_INVALID_CONTEXT;
  }
};

}  // namespace
}  // namespace vgpu::shim

namespace vgpu::graph {

Backend& backend() {
  static shim::GraphBackend* const instance = new shim::GraphBackend();
  return *instance;
}

}  // namespace vgpu::graph
