// A launch that is checked and packed, and can be put into a queue any number of times.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>

#include <climits>
#include <cstdint>
#include <memory>
#include <vector>

#include "api/geometry/cluster.h"
#include "softgpu/api/context_object.h"
#include "softgpu/api/module_object.h"

namespace vgpu::softgpu {

struct LaunchShape {
  Dim3 grid;
  Dim3 block;
  unsigned shared_bytes = 0;
  bool cooperative = false;
  ClusterSize cluster;         // as asked for; of a prepared launch, what it has
  bool cluster_later = false;  // of a node whose attributes may still be set
  int priority = INT_MAX;      // INT_MAX = the stream's
  SmSet sms;                   // those of the stream; null: the context's

  uint64_t blocks() const { return uint64_t{grid.x} * grid.y * grid.z; }
  uint64_t threads() const { return uint64_t{block.x} * block.y * block.z; }
};

struct Launch {
  Context* context = nullptr;
  std::shared_ptr<Module> module;
  std::shared_ptr<Function> function;
  std::shared_ptr<CompiledKernel> kernel;
  LaunchShape shape;
  std::vector<uint8_t> packed;
};

// Checks a launch in `context`, packs its parameters, and compiles its kernel or has that begun.
// INVALID_HANDLE when `handle` is no kernel there.
CUresult prepare_launch(Context& context, CUfunction handle, const LaunchShape& shape,
                        void** params, void** extra, Launch* launch);

// The same for a kernel of `module` by its number, launched from another; its parameters are zero.
CUresult prepare_child(std::shared_ptr<Module> module, uint32_t index, const LaunchShape& shape,
                       Launch* launch);

// How many SMs work of `context` has that is limited to `sms`; null: to what the context is.
uint32_t sm_count(const Context& context, const SmSet& sms);

// The launch as something to submit. It waits for the kernel's code where that is not there yet.
// `sms`: those of the stream; null: the context's.
std::unique_ptr<Command> make_command(const Launch& launch, Channel* channel, int priority,
                                      const SmSet& sms);

// Puts it behind what is in `queue`, behind `waits` too. `record` is reached when it is done.
void submit_launch(const Launch& launch, const std::shared_ptr<Channel>& channel,
                   const std::shared_ptr<StreamQueue>& queue, int priority, const SmSet& sms,
                   std::vector<std::shared_ptr<EventPoint>> waits,
                   std::shared_ptr<EventPoint> record);

}  // namespace vgpu::softgpu
