// What graphs and capture (api/graph) ask of the software GPU.
// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>

#include <climits>

#include "api/callback_scope.h"
#include "api/graph/backend.h"
#include "api/graph/model.h"
#include "softgpu/api/capture_hooks.h"
#include "softgpu/api/driver.h"
#include "softgpu/api/graph_exec.h"
#include "softgpu/api/launch_object.h"
#include "softgpu/api/memory_operation.h"
#include "softgpu/api/transfer_rect.h"

namespace vgpu::softgpu {
namespace {

// The handles of one graph.
struct Conditions final : graph::ConditionalSource {
  ~Conditions() override {
    for (const uint64_t handle : handles) (void)Driver::instance().conditions.remove(handle);
  }
  std::vector<uint64_t> handles;
};

class GraphBackend final : public graph::Backend {
 public:
  CUresult ready() override { return Driver::instance().ready(); }

  CUresult enter(CUcontext* current) override {
    Context* context = nullptr;
    const CUresult r = softgpu::enter(&context);
    if (r == CUDA_SUCCESS) *current = context->handle;
    return r;
  }

  CUresult check_device(CUdevice device) override { return softgpu::check_device(device); }

  CUresult find_stream(CUstream handle, graph::StreamKey* key) override {
    Context* context = nullptr;
    if (const CUresult r = softgpu::enter(&context); r != CUDA_SUCCESS) return r;
    const std::shared_ptr<Stream> stream = softgpu::find_stream(*context, handle);
    if (stream == nullptr) return green::lost_stream(handle);
    *key = key_of(*stream);
    return CUDA_SUCCESS;
  }

  CUresult check_kernel(graph::KernelPayload* kernel) override {
    CUDA_KERNEL_NODE_PARAMS_v2& p = kernel->params;
    std::shared_ptr<Context> context;
    if (const CUresult r = context_of(kernel, &context); r != CUDA_SUCCESS) return r;
    Launch launch;
    const CUresult r = prepare_kernel(*context, *kernel, p.kernelParams, p.extra, false, &launch);
    if (r != CUDA_SUCCESS) return r;
    p.ctx = context->handle;
    p.kernelParams = nullptr;
    p.extra = nullptr;
    const auto* bytes = reinterpret_cast<const std::byte*>(launch.packed.data());
    kernel->packed.assign(bytes, bytes + launch.packed.size());
    for (const ParamInfo& info : launch.function->info->params)
      kernel->layout.push_back({info.offset, info.bytes});
    return CUDA_SUCCESS;
  }

  CUresult check_copy(const graph::CopyPayload& copy) override {
    const std::shared_ptr<Context> context = Driver::instance().contexts.find(copy.context);
    if (context == nullptr || !context->alive()) return CUDA_ERROR_INVALID_CONTEXT;
    RectCopy rect;
    const CUresult r = to_rect(&copy.params, INT_MAX, &rect);
    return r == CUDA_SUCCESS ? check_rect(*context, rect) : r;
  }

  CUresult check_fill(const graph::FillPayload& fill) override {
    const std::shared_ptr<Context> context = Driver::instance().contexts.find(fill.params.ctx);
    if (context == nullptr || !context->alive()) return CUDA_ERROR_INVALID_CONTEXT;
    return check_fill_node(*context, fill.params);
  }

  CUresult check_event(CUevent event) override {
    return Driver::instance().events.find(event) == nullptr ? CUDA_ERROR_INVALID_VALUE
                                                            : CUDA_SUCCESS;
  }

  CUresult check_operations(const graph::OperationsPayload& operations) override {
    const std::shared_ptr<Context> context = Driver::instance().contexts.find(operations.context);
    if (context == nullptr || !context->alive()) return CUDA_ERROR_INVALID_CONTEXT;
    if (operations.flags != 0) return CUDA_ERROR_INVALID_VALUE;
    std::vector<StreamMemoryOperation> read;
    return read_operations(*context, static_cast<unsigned>(operations.operations.size()),
                           operations.operations.data(), &read);
  }

  CUresult check_host() override { return CUDA_SUCCESS; }

  CUresult allocate(CUcontext handle, size_t bytes, CUdeviceptr* address) override {
    const std::shared_ptr<Context> context = Driver::instance().contexts.find(handle);
    if (context == nullptr || !context->alive()) return CUDA_ERROR_INVALID_CONTEXT;
    *address = context->allocate(bytes, MemoryKind::kDevice);
    return *address != 0 ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
  }

  CUresult make_conditional(std::shared_ptr<graph::ConditionalSource>* source,
                            graph::Conditional* conditional) override {
    const std::shared_ptr<Context> context = Driver::instance().contexts.find(conditional->context);
    if (context == nullptr || !context->alive()) return CUDA_ERROR_INVALID_CONTEXT;
    if (*source == nullptr) *source = std::make_shared<Conditions>();
    auto cell = std::make_shared<ConditionCell>();
    cell->kernels = &context->output();
    conditional->handle = Driver::instance().conditions.insert(std::move(cell));
    if (conditional->handle == 0) return CUDA_ERROR_OUT_OF_MEMORY;
    static_cast<Conditions&>(**source).handles.push_back(conditional->handle);
    return CUDA_SUCCESS;
  }

  bool reached_by_device(const graph::CopyPayload& copy) override {
    const std::shared_ptr<Context> context = Driver::instance().contexts.find(copy.context);
    RectCopy rect;
    if (context == nullptr || to_rect(&copy.params, INT_MAX, &rect) != CUDA_SUCCESS) return false;
    for (const RectSide* side : {&rect.to, &rect.from}) {
      if (side->is_array() || side_of(*context, side->address) == PointerSide::kPageable)
        return false;
    }
    return true;
  }

  void release(CUcontext handle, CUdeviceptr address) override {
    const std::shared_ptr<Context> context = Driver::instance().contexts.find(handle);
    if (context == nullptr || !context->alive()) return;  // it went with its context
    context->free_later(address);
  }

  std::string kernel_name(const graph::KernelPayload& kernel) override {
    const std::shared_ptr<Context> context = Driver::instance().contexts.find(kernel.params.ctx);
    const std::shared_ptr<Function> function =
        context == nullptr ? nullptr : find_function(*context, handle_of(kernel));
    return function == nullptr ? "" : function->info->name;
  }

  // All nodes are of one context, which is that of the first one that has any.
  CUresult instantiate(uint64_t, const graph::Plan& plan, uint64_t flags,
                       std::unique_ptr<graph::ExecBackend>* exec) override {
    CUcontext owner = nullptr;
    if (const CUresult r = enter(&owner); r != CUDA_SUCCESS) return r;
    if (const CUresult r = graph::context_of(plan, &owner); r != CUDA_SUCCESS) return r;
    const std::shared_ptr<Context> context = Driver::instance().contexts.find(owner);
    if (context == nullptr || !context->alive()) return CUDA_ERROR_INVALID_CONTEXT;
    auto made = std::make_unique<GraphExec>(
        context.get(), plan, (flags & CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY) != 0);
    const CUresult r = made->prepare();
    if (r == CUDA_SUCCESS) *exec = std::move(made);
    return r;
  }

 private:
  static CUfunction handle_of(const graph::KernelPayload& kernel) {
    const auto& p = kernel.params;
    return p.func != nullptr ? p.func : reinterpret_cast<CUfunction>(p.kern);
  }

  // A CUfunction belongs to a context; a CUkernel runs where it is told to.
  CUresult context_of(graph::KernelPayload* kernel, std::shared_ptr<Context>* context) {
    Driver& driver = Driver::instance();
    CUcontext handle = kernel->params.ctx;
    if (const auto function = driver.functions.find(handle_of(*kernel))) {
      const std::shared_ptr<Module> module = function->module.lock();
      if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
      handle = module->context()->handle;
    } else if (handle == nullptr) {
      if (const CUresult r = enter(&handle); r != CUDA_SUCCESS) return r;
    }
    *context = driver.contexts.find(handle);
    return *context != nullptr && (*context)->alive() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
  }
};

}  // namespace
}  // namespace vgpu::softgpu

namespace vgpu::graph {

Backend& backend() {
  static softgpu::GraphBackend* const instance = new softgpu::GraphBackend();
  return *instance;
}

}  // namespace vgpu::graph
