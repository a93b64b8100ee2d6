// A graph that can be launched: its nodes are spread over queues of its own.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "api/graph/backend.h"
#include "softgpu/api/graph_work.h"

namespace vgpu::softgpu {

// Nodes that do not depend on each other run side by side in at most so many queues.
inline constexpr size_t kGraphQueuesMax = 16;

// In one context. A launch puts two commands into the stream: one that takes the graph apart when
// its turn comes, and one that waits for the graph's end. So a stream's queue does not fill with
// nodes, and launches of the same graph follow one another.
class GraphExec : public graph::ExecBackend {
 public:
  GraphExec(Context* context, const graph::Plan& plan, bool node_priority);
  ~GraphExec() override;

  // Everything that can fail; once.
  CUresult prepare();
  CUresult launch(CUstream stream) override;
  CUresult update(const std::vector<uint32_t>& steps) override;
  void wait() override;

 private:
  using Works = std::vector<std::shared_ptr<const GraphWork>>;
  // How steps are spread: immutable, shared with the launches in flight.
  struct Layout {
    struct Place {
      uint32_t queue = 0;
      std::vector<uint32_t> waits;  // steps in other queues
      bool awaited = false;         // by another queue, or by the end
    };
    Context* context = nullptr;
    std::shared_ptr<Channel> channel;
    std::vector<Place> places;
    std::vector<std::shared_ptr<StreamQueue>> queues;
    std::vector<uint32_t> ends;  // the last step of each queue
  };
  struct Flight;  // one launch

  void spread();
  static void take_apart(const Flight& flight);

  Context* const context_;
  const graph::Plan& plan_;
  const bool node_priority_;
  std::shared_ptr<Layout> layout_;
  std::shared_ptr<Works> works_;
  std::shared_ptr<EventPoint> last_;  // the end of the newest launch
};

}  // namespace vgpu::softgpu
