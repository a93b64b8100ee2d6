// A graph that can be launched: its nodes are spread over queues of its own.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "api/graph/backend.h"
#include "softgpu/api/graph_work.h"

namespace vgpu::softgpu {

// Nodes that do not depend on each other run side by side in at most so many queues; those in the
// body of a conditional node have queues of their own.
inline constexpr size_t kGraphQueuesMax = 16;

// In one context. A launch puts two commands into the stream: one that takes the graph apart when
// its turn comes, and one that waits for the graph's end. So a stream's queue does not fill with
// nodes, and launches of the same graph follow one another. A conditional node is two commands in
// its queue in the same way; a body is taken apart each time that it is to run.
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
    struct Part {  // one region of the plan
      graph::Region steps;
      std::vector<std::shared_ptr<StreamQueue>> queues;
      std::vector<uint32_t> ends;  // the last step of each queue
    };
    Context* context = nullptr;
    std::shared_ptr<Channel> channel;
    std::vector<Place> places;  // by step
    std::vector<Part> parts;
    std::vector<std::vector<uint32_t>> bodies;  // of conditional steps: parts
  };
  struct Flight;  // one launch
  using FlightRef = std::shared_ptr<const Flight>;

  void spread();
  void spread(const graph::Region& region, Layout::Part* part);
  // Puts the steps of a part into its queues. `end`: what comes behind them all.
  static void take_apart(const FlightRef& flight, uint32_t part,
                         const std::function<void(Submission)>& end);
  static void begin_flight(const FlightRef& flight);
  static void submit_step(const FlightRef& flight, uint32_t step, Submission to);
  static void decide(const FlightRef& flight, uint32_t step,
                     const std::shared_ptr<EventPoint>& done);

  Context* const context_;
  const graph::Plan& plan_;
  const bool node_priority_;
  std::shared_ptr<Layout> layout_;
  std::shared_ptr<Works> works_;
  std::shared_ptr<EventPoint> last_;  // the end of the newest launch
};

}  // namespace vgpu::softgpu
