// Ordinary host memory that a graph copies from and to: the worker sees blocks of its own, which
// functions around the copies fill and empty. SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SHIM_GRAPH_STAGING_H_
#define VGPU_SHIM_GRAPH_STAGING_H_

#include <deque>
#include <map>
#include <memory>
#include <span>
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

// Steps that are prepared together have a block, in which ranges that overlap share their place. A
// step that is prepared again has another one; what others have stays. Used under the graph's lock.
class GraphStaging {
 public:
  GraphStaging() = default;
  GraphStaging(const GraphStaging&) = delete;
  GraphStaging& operator=(const GraphStaging&) = delete;

  // Finds what the copies among the steps need and makes a block. Until keep() or drop() the steps
  // are as they were for everybody but redirect(). NOT_SUPPORTED when the worker cannot have one.
  CUresult prepare(Session& session, Context* context, const graph::Plan& plan,
                   std::span<const uint32_t> steps);
  // The end of a step's copy in ordinary memory, moved into the block; what has to be done for it,
  // which stays as long as the step is as it is. nullptr: it is none.
  StagedCopy* redirect(uint32_t step, const RectCopy& rect, const RectSide& side, Place* place);
  // The worker has what was prepared, and nothing is under way that uses what it takes the place
  // of.
  void keep(Session& session, Context* context);
  // It has not.
  void drop(Session& session, Context* context);
  // Gives all blocks back, behind the work of `context`; null when that is gone with all its work.
  void release(Session& session, Context* context);

 private:
  struct Range {
    uint64_t begin = 0, end = 0, place = 0;
  };
  struct Area {
    std::vector<Range> ranges;  // in order, apart
    HostBlock block;
    uint64_t moved(uint64_t address) const;
  };
  struct Staged {
    std::shared_ptr<Area> area;  // null: no copy of ordinary memory
    std::deque<StagedCopy> copies;
  };
  using Steps = std::map<uint32_t, Staged>;

  static uint64_t merge(std::vector<Range>* ranges);
  static void give_back(Session& session, Context* context, Steps* gone);

  Steps steps_, prepared_;
};

}  // namespace vgpu::shim

#endif  // VGPU_SHIM_GRAPH_STAGING_H_
