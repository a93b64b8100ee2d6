// What the graph model asks of the driver that it is part of: the software GPU, or the guest's
// half. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "api/graph/node.h"
#include "api/graph/plan.h"

namespace vgpu::graph {

// A stream as capture knows it.
struct StreamKey {
  uint64_t id = 0;  // no two streams have the same
  CUcontext context = nullptr;
  bool legacy = false;
  bool blocking = false;  // orders with the legacy stream
  int priority = 0;
};

// A plan that can be launched. Calls come one at a time; the plan stays where it is.
class ExecBackend {
 public:
  virtual ~ExecBackend() = default;
  virtual CUresult launch(CUstream stream) = 0;
  // Steps whose nodes have other parameters now. Launches before are not affected.
  virtual CUresult update(const std::vector<uint32_t>& steps) = 0;
  // Everything launched is past.
  virtual void wait() = 0;
};

class Backend {
 public:
  // The checks of a call that needs no context, and of one that does.
  virtual CUresult ready() = 0;
  virtual CUresult enter(CUcontext* current) = 0;
  virtual CUresult check_device(CUdevice device) = 0;
  virtual CUresult find_stream(CUstream handle, StreamKey* key) = 0;

  // Arguments of nodes, as the calls that do the same in a stream check them. `kernel` has the
  // program's parameters; packed, layout and the context are filled in.
  virtual CUresult check_kernel(KernelPayload* kernel) = 0;
  virtual CUresult check_copy(const CopyPayload& copy) = 0;
  virtual CUresult check_fill(const FillPayload& fill) = 0;
  virtual CUresult check_event(CUevent event) = 0;
  virtual CUresult check_operations(const OperationsPayload& operations) = 0;
  // CUDA_SUCCESS when host functions can be nodes.
  virtual CUresult check_host() = 0;
  // Memory of allocation nodes. What is given back may still be used by what was launched.
  virtual CUresult allocate(CUcontext context, size_t bytes, CUdeviceptr* address) = 0;
  virtual void release(CUcontext context, CUdeviceptr address) = 0;
  // A handle for conditional nodes: fills in conditional->handle and its source, which is the
  // graph's; a null one is made. The context is the current one.
  virtual CUresult make_conditional(std::shared_ptr<ConditionalSource>* source,
                                    Conditional* conditional) = 0;
  // Whether both ends of a copy are memory that the device reaches itself.
  virtual bool reached_by_device(const CopyPayload& copy) = 0;
  virtual std::string kernel_name(const KernelPayload& kernel) = 0;

  // `id` names it as long as it exists.
  virtual CUresult instantiate(uint64_t id, const Plan& plan, uint64_t flags,
                               std::unique_ptr<ExecBackend>* exec) = 0;

 protected:
  ~Backend() = default;
};

// The one of this library.
Backend& backend();

// What a call with a wrong argument returns: INVALID_VALUE, or why it could not be made at all.
inline CUresult wrong_argument() {
  const CUresult r = backend().ready();
  return r == CUDA_SUCCESS ? CUDA_ERROR_INVALID_VALUE : r;
}

}  // namespace vgpu::graph
