// What one node of a graph does, ready to be put into a queue at every launch.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "api/graph/plan.h"
#include "softgpu/api/driver.h"

namespace vgpu::softgpu {

// Where a node's commands go in one launch.
struct Submission {
  Context* context = nullptr;
  const std::shared_ptr<Channel>* channel = nullptr;
  const std::shared_ptr<StreamQueue>* queue = nullptr;
  int priority = 0;  // of the launching stream
  SmSet sms;         // the same; null: all
  std::vector<std::shared_ptr<EventPoint>> waits;
  std::shared_ptr<EventPoint> record;  // reached when the node is done; may be null
};

struct GraphWork {
  // Null: nothing but the waits.
  std::function<void(Submission)> submit;
  std::shared_ptr<Event> recorded, awaited;  // of event nodes
  std::shared_ptr<ConditionCell> condition;  // of conditional nodes
  std::shared_ptr<const graph::Conditional> conditional;
  CUgraphConditionalNodeType type = CU_GRAPH_COND_TYPE_IF;
};

// Checks the step in `context`, whose nodes the graph may have only.
CUresult make_work(Context& context, const graph::Step& step, bool node_priority,
                   std::shared_ptr<const GraphWork>* work);

// A command that only waits, and records.
void submit_marker(Submission to);
// One that does what puts more commands into queues.
void submit_graph_work(Submission to, std::function<void()> work);

// Arguments of nodes (also for the model's checks). `complete`: its attributes are all set.
CUresult prepare_kernel(Context& context, const graph::KernelPayload& kernel, void** params,
                        void** extra, bool complete, struct Launch* launch);
CUresult check_fill_node(Context& context, const CUDA_MEMSET_NODE_PARAMS_v2& fill);

}  // namespace vgpu::softgpu
