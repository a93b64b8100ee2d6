// Ordinary host memory that a graph copies from and to: the worker sees a block of its own, which
// is filled before each launch and emptied after it. SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SHIM_GRAPH_STAGING_H_
#define VGPU_SHIM_GRAPH_STAGING_H_

#include <vector>

#include "api/graph/plan.h"
#include "shim/process.h"
#include "shim/rect_place.h"

namespace vgpu::shim {

// Ranges that overlap share their place in the block, so that what one node writes another can
// read. Used under the graph's lock.
class GraphStaging {
 public:
  GraphStaging() = default;
  GraphStaging(const GraphStaging&) = delete;
  GraphStaging& operator=(const GraphStaging&) = delete;

  // Finds what the plan's copies need and makes the block. NOT_SUPPORTED when the worker cannot
  // have one.
  CUresult prepare(Session& session, Context* context, const graph::Plan& plan);
  // The end of a copy in ordinary memory, moved into the block.
  void redirect(Place* place) const;
  bool reads() const { return !in_.empty(); }
  bool writes() const { return !out_.empty(); }
  void fill() const { move(in_, true); }
  void empty() const { move(out_, false); }
  // Gives the block back, behind the work of `context`; null when that is gone with all its work.
  void release(Session& session, Context* context);

 private:
  struct Range {
    uint64_t begin = 0, end = 0, place = 0;
  };
  struct Box {
    RectSide side;
    uint64_t width = 0, height = 0, depth = 0;
  };
  void merge();
  void move(const std::vector<Box>& boxes, bool to_block) const;
  uint64_t moved(uint64_t address) const;

  std::vector<Range> ranges_;  // in order, apart
  std::vector<Box> in_, out_;
  HostBlock block_;
};

}  // namespace vgpu::shim

#endif  // VGPU_SHIM_GRAPH_STAGING_H_
