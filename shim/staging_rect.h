// Boxes between ordinary memory of the process and the device, packed into the channel's slabs.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SHIM_STAGING_RECT_H_
#define VGPU_SHIM_STAGING_RECT_H_

#include "api/geometry/rect.h"
#include "shim/process.h"

namespace vgpu::shim {

// One end of a box as the worker reaches it (api/spec/channel.toml, "boxes").
struct RectEnd {
  enum Kind : uint32_t { kMemory = 1, kArray = 2, kHost = 3 };
  Kind kind = kMemory;
  uint64_t memory = 0;           // address, or id of the array
  uint64_t pitch = 0, rows = 0;  // of memory
  uint64_t x = 0, y = 0, z = 0;  // of an array

  // The same end for the part of its box that begins at (x, y, z).
  RectEnd at(uint64_t dx, uint64_t dy, uint64_t dz) const;
};

// Copies `rect` from host memory (rect.from) to `to` on `stream`. Returns when the caller's memory
// may change; waits only for room in the slab.
CUresult stage_rect_to_device(Session& session, Context* context, const RectEnd& to,
                              const RectCopy& rect, const StreamRef& stream);

// Copies `rect` from `from` to host memory (rect.to) on `stream` and waits for it; several pieces
// are on their way at a time.
CUresult stage_rect_from_device(Session& session, Context* context, const RectEnd& from,
                                const RectCopy& rect, const StreamRef& stream);

}  // namespace vgpu::shim

#endif  // VGPU_SHIM_STAGING_RECT_H_
