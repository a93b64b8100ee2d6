// Texture and surface objects. Kernels use the driver's own handles, so these go to the guest as
// they are: they name objects of this worker's contexts only.
// SPDX-License-Identifier: Apache-2.0
#include "server/array.h"
#include "server/session.h"
#include "server_handlers.h"

namespace vgpu::server {
namespace {

// The resource, with our handles; nullptr or why the guest may not have it.
const char* read_resource(Session& session, const wire::TextureCreateArgs& args,
                          CUDA_RESOURCE_DESC* resource) {
  resource->resType = static_cast<CUresourcetype>(args.type);
  resource->flags = args.resource_flags;
  const auto format = static_cast<CUarray_format>(args.format);
  switch (resource->resType) {
    case CU_RESOURCE_TYPE_ARRAY: {
      const Array* array = session.arrays().arrays.find(args.resource);
      if (array == nullptr || array->context != session.bound()) return "unknown array";
      resource->res.array.hArray = array->handle;
      return nullptr;
    }
    case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY: {
      const MipmappedArray* array = session.arrays().mipmapped.find(args.resource);
      if (array == nullptr || array->context != session.bound()) return "unknown mipmapped array";
      resource->res.mipmap.hMipmappedArray = array->handle;
      return nullptr;
    }
    case CU_RESOURCE_TYPE_LINEAR:
      resource->res.linear.devPtr = args.resource;
      resource->res.linear.format = format;
      resource->res.linear.numChannels = args.channels;
      resource->res.linear.sizeInBytes = args.width;
      return session.memory().owns(args.resource, args.width) ? nullptr : "not the guest's memory";
    case CU_RESOURCE_TYPE_PITCH2D: {
      resource->res.pitch2D.devPtr = args.resource;
      resource->res.pitch2D.format = format;
      resource->res.pitch2D.numChannels = args.channels;
      resource->res.pitch2D.width = args.width;
      resource->res.pitch2D.height = args.height;
      resource->res.pitch2D.pitchInBytes = args.pitch;
      uint64_t bytes = 0, row = 0;
      const uint64_t texel = uint64_t{channel_bytes(format)} * args.channels;
      const bool sized = args.height != 0 && texel != 0 && texel <= 16 &&
                         !__builtin_mul_overflow(args.pitch, args.height - 1, &bytes) &&
                         !__builtin_mul_overflow(args.width, texel, &row) && row <= args.pitch &&
                         !__builtin_add_overflow(bytes, row, &bytes);
      return sized && session.memory().owns(args.resource, bytes) ? nullptr
                                                                  : "not the guest's memory";
    }
    default:
      return "resource type";
  }
}

CUDA_TEXTURE_DESC read_texture(const wire::TextureCreateArgs& args) {
  CUDA_TEXTURE_DESC d = {};
  for (int i = 0; i < 3; ++i) d.addressMode[i] = static_cast<CUaddress_mode>(args.address_mode[i]);
  d.filterMode = static_cast<CUfilter_mode>(args.filter);
  d.flags = args.flags;
  d.maxAnisotropy = args.anisotropy;
  d.mipmapFilterMode = static_cast<CUfilter_mode>(args.mip_filter);
  d.mipmapLevelBias = args.level_bias;
  d.minMipmapLevelClamp = args.level_min;
  d.maxMipmapLevelClamp = args.level_max;
  for (int i = 0; i < 4; ++i) d.borderColor[i] = args.border[i];
  return d;
}

CUDA_RESOURCE_VIEW_DESC read_view(const wire::TextureCreateArgs& args) {
  CUDA_RESOURCE_VIEW_DESC v = {};
  v.format = static_cast<CUresourceViewFormat>(args.view_format);
  v.width = args.view_width;
  v.height = args.view_height;
  v.depth = args.view_depth;
  v.firstMipmapLevel = args.first_level;
  v.lastMipmapLevel = args.last_level;
  v.firstLayer = args.first_layer;
  v.lastLayer = args.last_layer;
  return v;
}

}  // namespace

bool handle_TextureCreate(Session& session, const wire::TextureCreateArgs& args,
                          const Record& record) {
  if (session.bound() == nullptr) return session.malformed(record, "no context is bound");
  CUDA_RESOURCE_DESC resource = {};
  if (const char* why = read_resource(session, args, &resource); why != nullptr)
    return session.malformed(record, why);
  if (session.arrays().textures.size() >= kTexturesMax)
    return session.complete(record, CUDA_ERROR_OUT_OF_MEMORY, nullptr, 0);
  const CUDA_TEXTURE_DESC texture = read_texture(args);
  const CUDA_RESOURCE_VIEW_DESC view = read_view(args);
  CUtexObject handle = 0;
  const CUresult result = session.driver().cuTexObjectCreate(&handle, &resource, &texture,
                                                             args.view != 0 ? &view : nullptr);
  if (result == CUDA_SUCCESS) session.arrays().textures[handle] = {handle, session.bound(), false};
  wire::TextureCreateReply reply;
  reply.handle = handle;
  return session.complete(record, result, &reply, sizeof(reply));
}

bool handle_SurfaceCreate(Session& session, const wire::SurfaceCreateArgs& args,
                          const Record& record) {
  if (session.bound() == nullptr) return session.malformed(record, "no context is bound");
  const Array* array = session.arrays().arrays.find(args.array);
  if (array == nullptr || array->context != session.bound())
    return session.malformed(record, "unknown array");
  if (session.arrays().textures.size() >= kTexturesMax)
    return session.complete(record, CUDA_ERROR_OUT_OF_MEMORY, nullptr, 0);
  CUDA_RESOURCE_DESC resource = {};
  resource.resType = CU_RESOURCE_TYPE_ARRAY;
  resource.res.array.hArray = array->handle;
  resource.flags = args.flags;
  CUsurfObject handle = 0;
  const CUresult result = session.driver().cuSurfObjectCreate(&handle, &resource);
  if (result == CUDA_SUCCESS) session.arrays().textures[handle] = {handle, session.bound(), true};
  wire::SurfaceCreateReply reply;
  reply.handle = handle;
  return session.complete(record, result, &reply, sizeof(reply));
}

}  // namespace vgpu::server
