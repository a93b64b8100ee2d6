// Moving bytes between ordinary memory of the process and the device, through the channel's slabs.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SHIM_STAGING_H_
#define VGPU_SHIM_STAGING_H_

#include "shim/process.h"

namespace vgpu::shim {

// Copies to the device on `stream`: into the record when it is small, else through the up-slab in
// pieces that the worker takes while the next is filled. Returns when the caller's memory may
// change; waits only for room in the slab.
CUresult stage_to_device(Session& session, Context* context, uint64_t to, const void* from,
                         uint64_t bytes, const StreamRef& stream);

// Copies from the device on `stream` and waits for it; several pieces are on their way at a time.
CUresult stage_from_device(Session& session, Context* context, void* to, uint64_t from,
                           uint64_t bytes, const StreamRef& stream);

// Sends an image in pieces under the name `upload`.
CUresult stage_image(Session& session, Context* context, uint64_t upload, const void* image,
                     uint64_t bytes);

}  // namespace vgpu::shim

#endif  // VGPU_SHIM_STAGING_H_
