// A graph that can be launched, as the guest has it: the worker knows the nodes, a launch is one
// record. SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SHIM_GRAPH_EXEC_H_
#define VGPU_SHIM_GRAPH_EXEC_H_

#include <memory>
#include <vector>

#include "api/graph/backend.h"
#include "shim/graph_commands.h"
#include "shim/graph_staging.h"
#include "shim/process.h"
#include "shim/stream_table.h"

namespace vgpu::shim {

// In one context.
class GraphExec : public graph::ExecBackend {
 public:
  GraphExec(Session* session, Context* context, uint64_t id, const graph::Plan& plan,
            bool node_priority)
      : session_(session),
        context_(context),
        life_(context->unique_id),
        id_(id),
        plan_(plan),
        node_priority_(node_priority) {}
  ~GraphExec() override;

  CUresult instantiate(uint64_t flags);
  CUresult launch(CUstream stream) override;
  CUresult update(const std::vector<uint32_t>& steps) override;
  void wait() override;

 private:
  using Names = std::vector<GraphFunction>;

  bool alive() const;
  // Sends the steps as an upload; its name.
  CUresult send(const std::vector<uint32_t>& steps, bool edges, uint64_t* upload);
  CUresult encode(uint32_t step, bool edges, std::vector<std::byte>* out, Names* names);
  // Those of these steps take the place of earlier ones.
  void take_names(std::vector<uint32_t> steps, const Names& names);
  void forget_replaced();
  void find_events();
  bool has_shared_events() const;
  void note_launch(const StreamRef& stream, uint64_t number);

  Session* const session_;
  Context* const context_;
  const uint64_t life_;  // of the context
  const uint64_t id_;
  const graph::Plan& plan_;
  const bool node_priority_;
  bool known_ = false;  // to the worker
  GraphStaging staging_;
  std::vector<uint64_t> recorded_, awaited_;  // events
  Names functions_;
  std::vector<uint64_t> replaced_;  // names that what was launched before a change may still call
  StreamRef last_stream_;
  uint64_t last_launch_ = 0;  // number of the newest launch
};

}  // namespace vgpu::shim

#endif  // VGPU_SHIM_GRAPH_EXEC_H_
