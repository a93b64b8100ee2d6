// Texture and surface objects. Kernels get the handle as it is, so it is the worker's driver's own.
// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>
#include <cudaProfiler.h>

#include "driver_functions.h"
#include "shim/process.h"

namespace vgpu::driver {

using shim::Allocation;
using shim::Array;
using shim::Context;
using shim::enter;
using shim::id_of;
using shim::MipmappedArray;
using shim::Session;
using shim::TextureObject;

namespace {

bool on_device(Session& session, uint64_t address, uint64_t bytes) {
  Allocation allocation;
  return session.memory().find(address, &allocation) &&
         bytes <= allocation.bytes - (address - allocation.address);
}

// The resource as the worker can find it. Ids and addresses are checked here, since the worker
// takes a wrong one for an attack; all else is for its driver to judge.
CUresult set_resource(Session& session, const Context* context, const CUDA_RESOURCE_DESC& r,
                      wire::TextureCreateArgs* args) {
  args->type = static_cast<uint32_t>(r.resType);
  args->resource_flags = r.flags;
  switch (r.resType) {
    case CU_RESOURCE_TYPE_ARRAY: {
      Array array;
      args->resource = id_of(r.res.array.hArray);
      return session.arrays().find(args->resource, context, &array) ? CUDA_SUCCESS
                                                                    : CUDA_ERROR_INVALID_HANDLE;
    }
    case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY: {
      MipmappedArray array;
      args->resource = id_of(r.res.mipmap.hMipmappedArray);
      return session.arrays().find_mipmapped(args->resource, context, &array)
                 ? CUDA_SUCCESS
                 : CUDA_ERROR_INVALID_HANDLE;
    }
    case CU_RESOURCE_TYPE_LINEAR:
      args->resource = r.res.linear.devPtr;
      args->format = static_cast<uint32_t>(r.res.linear.format);
      args->channels = r.res.linear.numChannels;
      args->width = r.res.linear.sizeInBytes;
      return args->width != 0 && on_device(session, args->resource, args->width)
                 ? CUDA_SUCCESS
                 : CUDA_ERROR_INVALID_VALUE;
    case CU_RESOURCE_TYPE_PITCH2D: {
      args->resource = r.res.pitch2D.devPtr;
      args->format = static_cast<uint32_t>(r.res.pitch2D.format);
      args->channels = r.res.pitch2D.numChannels;
      args->width = r.res.pitch2D.width;
      args->height = r.res.pitch2D.height;
      args->pitch = r.res.pitch2D.pitchInBytes;
      const uint64_t texel = uint64_t{channel_bytes(r.res.pitch2D.format)} * args->channels;
      uint64_t bytes = 0;
      const bool sized = texel != 0 && texel <= 16 && args->width != 0 && args->height != 0 &&
                         args->width <= args->pitch / texel &&
                         !__builtin_mul_overflow(args->pitch, args->height - 1, &bytes) &&
                         !__builtin_add_overflow(bytes, args->width * texel, &bytes);
      return sized && on_device(session, args->resource, bytes) ? CUDA_SUCCESS
                                                                : CUDA_ERROR_INVALID_VALUE;
    }
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

void set_texture(const CUDA_TEXTURE_DESC& t, wire::TextureCreateArgs* args) {
  for (int i = 0; i < 3; ++i) args->address_mode[i] = static_cast<uint32_t>(t.addressMode[i]);
  args->filter = static_cast<uint32_t>(t.filterMode);
  args->flags = t.flags;
  args->anisotropy = t.maxAnisotropy;
  args->mip_filter = static_cast<uint32_t>(t.mipmapFilterMode);
  args->level_bias = t.mipmapLevelBias;
  args->level_min = t.minMipmapLevelClamp;
  args->level_max = t.maxMipmapLevelClamp;
  for (int i = 0; i < 4; ++i) args->border[i] = t.borderColor[i];
}

void set_view(const CUDA_RESOURCE_VIEW_DESC& v, wire::TextureCreateArgs* args) {
  args->view = 1;
  args->view_format = static_cast<uint32_t>(v.format);
  args->view_width = v.width;
  args->view_height = v.height;
  args->view_depth = v.depth;
  args->first_level = v.firstMipmapLevel;
  args->last_level = v.lastMipmapLevel;
  args->first_layer = v.firstLayer;
  args->last_layer = v.lastLayer;
}

CUresult destroy(uint64_t handle, bool surface) {
  Session* session;
  Context* context;
  if (CUresult r = enter(&session, &context); r != CUDA_SUCCESS) return r;
  if (!session->arrays().remove_texture(handle, surface)) return CUDA_ERROR_INVALID_VALUE;
  wire::TextureDestroyArgs args;
  args.handle = handle;
  return session->post(context, Op::kTextureDestroy, args) != 0 ? CUDA_SUCCESS : session->lost();
}

CUresult look_up(uint64_t handle, bool surface, const void* out, TextureObject* object) {
  Session* session;
  Context* context;
  if (CUresult r = enter(&session, &context); r != CUDA_SUCCESS) return r;
  const bool found = session->arrays().find_texture(handle, surface, object);
  return found && out != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

}  // namespace

CUresult cuTexObjectCreate(CUtexObject* out, const CUDA_RESOURCE_DESC* resource,
                           const CUDA_TEXTURE_DESC* texture, const CUDA_RESOURCE_VIEW_DESC* view) {
  Session* session;
  Context* context;
  if (CUresult r = enter(&session, &context); r != CUDA_SUCCESS) return r;
  if (out == nullptr || resource == nullptr || texture == nullptr) return CUDA_ERROR_INVALID_VALUE;
  wire::TextureCreateArgs args;
  if (CUresult r = set_resource(*session, context, *resource, &args); r != CUDA_SUCCESS) return r;
  set_texture(*texture, &args);
  if (view != nullptr) set_view(*view, &args);
  wire::TextureCreateReply reply;
  const CUresult result = session->ask(context, Op::kTextureCreate, args, &reply);
  if (result != CUDA_SUCCESS) return result;
  TextureObject object;
  object.context = context;
  object.resource = *resource;
  object.texture = *texture;
  if (view != nullptr) object.view = *view;
  session->arrays().insert_texture(reply.handle, object);
  *out = reply.handle;
  return CUDA_SUCCESS;
}

CUresult cuTexObjectDestroy(CUtexObject handle) { return destroy(handle, false); }

CUresult cuTexObjectGetResourceDesc(CUDA_RESOURCE_DESC* out, CUtexObject handle) {
  TextureObject object;
  const CUresult result = look_up(handle, false, out, &object);
  if (result == CUDA_SUCCESS) *out = object.resource;
  return result;
}

CUresult cuTexObjectGetTextureDesc(CUDA_TEXTURE_DESC* out, CUtexObject handle) {
  TextureObject object;
  const CUresult result = look_up(handle, false, out, &object);
  if (result == CUDA_SUCCESS) *out = object.texture;
  return result;
}

CUresult cuTexObjectGetResourceViewDesc(CUDA_RESOURCE_VIEW_DESC* out, CUtexObject handle) {
  TextureObject object;
  const CUresult result = look_up(handle, false, out, &object);
  if (result != CUDA_SUCCESS) return result;
  if (!object.view.has_value()) return CUDA_ERROR_INVALID_VALUE;
  *out = *object.view;
  return CUDA_SUCCESS;
}

CUresult cuSurfObjectCreate(CUsurfObject* out, const CUDA_RESOURCE_DESC* resource) {
  Session* session;
  Context* context;
  if (CUresult r = enter(&session, &context); r != CUDA_SUCCESS) return r;
  if (out == nullptr || resource == nullptr || resource->resType != CU_RESOURCE_TYPE_ARRAY)
    return CUDA_ERROR_INVALID_VALUE;
  wire::SurfaceCreateArgs args;
  Array array;
  args.array = id_of(resource->res.array.hArray);
  args.flags = resource->flags;
  if (!session->arrays().find(args.array, context, &array)) return CUDA_ERROR_INVALID_HANDLE;
  wire::SurfaceCreateReply reply;
  const CUresult result = session->ask(context, Op::kSurfaceCreate, args, &reply);
  if (result != CUDA_SUCCESS) return result;
  TextureObject object;
  object.context = context;
  object.surface = true;
  object.resource = *resource;
  session->arrays().insert_texture(reply.handle, object);
  *out = reply.handle;
  return CUDA_SUCCESS;
}

CUresult cuSurfObjectDestroy(CUsurfObject handle) { return destroy(handle, true); }

CUresult cuSurfObjectGetResourceDesc(CUDA_RESOURCE_DESC* out, CUsurfObject handle) {
  TextureObject object;
  const CUresult result = look_up(handle, true, out, &object);
  if (result == CUDA_SUCCESS) *out = object.resource;
  return result;
}

}  // namespace vgpu::driver
