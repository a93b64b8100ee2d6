// Ordinary host memory that a graph copies from and to: the worker sees a block of its own, which
// functions around the copies fill and empty. SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SHIM_GRAPH_STAGING_H_
#define VGPU_SHIM_GRAPH_STAGING_H_

#include <deque>
#include <vector>

#include "api/graph/plan.h"
#include "shim/process.h"
#include "shim/rect_place.h"

namespace vgpu::shim {

// One end of a copy in ordinary memory, and where in the block it is.
struct StagedCopy {
  RectSide side;
  uint64_t block = 0;
  uint64_t width = 0, height = 0, depth = 0;
  bool to_block = false;
  // As a host function of the stream's, with the StagedCopy.
  static void CUDA_CB run(void* self);
};

// Ranges that overlap share their place in the block. Used under the graph's lock.
class GraphStaging {
 public:
  GraphStaging() = default;
  GraphStaging(const GraphStaging&) = delete;
  GraphStaging& operator=(const GraphStaging&) = delete;

  // Finds what the plan's copies need and makes the block. NOT_SUPPORTED when the worker cannot
  // have one.
  CUresult prepare(Session& session, Context* context, const graph::Plan& plan);
  // The end of a copy in ordinary memory, moved into the block; what has to be done for it, which
  // stays until forget(). nullptr: it is none.
  StagedCopy* redirect(const RectCopy& rect, const RectSide& side, Place* place);
  size_t redirected() const { return copies_.size(); }
  // The first `count` that redirect() has given out are used no more.
  void forget(size_t count) {
    copies_.erase(copies_.begin(), copies_.begin() + static_cast<ptrdiff_t>(count));
  }
  // Gives the block back, behind the work of `context`; null when that is gone with all its work.
  void release(Session& session, Context* context);

 private:
  struct Range {
    uint64_t begin = 0, end = 0, place = 0;
  };
  void merge();
  uint64_t moved(uint64_t address) const;

  std::vector<Range> ranges_;  // in order, apart
  std::deque<StagedCopy> copies_;
  HostBlock block_;
};

}  // namespace vgpu::shim

#endif  // VGPU_SHIM_GRAPH_STAGING_H_
