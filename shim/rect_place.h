// Where the ends of a box are, as the worker is told.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SHIM_RECT_PLACE_H_
#define VGPU_SHIM_RECT_PLACE_H_

#include "api/geometry/rect.h"
#include "shim/staging_rect.h"

namespace vgpu::shim {

// What one end of a copy is.
struct Place {
  enum Kind : uint8_t { kDevice, kArray, kInPlace, kHost };
  Kind kind = kHost;
  RectEnd end;
  uint32_t texel_bytes = 0;  // of an array
  bool worker_reaches() const { return kind != kHost; }
  bool on_device() const { return kind == kDevice || kind == kArray; }
};

// Whose arrays the handles mean, and where the copy runs. Work on arrays in a stream of another
// context is not served.
struct PlaceScope {
  Context* current = nullptr;
  Context* stream = nullptr;
};
CUresult locate(Session& session, const PlaceScope& scope, const RectCopy& rect,
                const RectSide& side, Place* place);

// A copy between two ends that the worker reaches; the stream is left out.
wire::RectCopyArgs copy_args(const RectEnd& to, const RectEnd& from, const RectCopy& rect);

uint64_t pitch_max(const Session& session, const Context& context);

}  // namespace vgpu::shim

#endif  // VGPU_SHIM_RECT_PLACE_H_
