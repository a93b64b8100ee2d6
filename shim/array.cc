// Arrays: cuArray*, cuMipmappedArray*. Descriptors are answered here; making one asks the worker,
// which may have no memory.
// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>
#include <cudaProfiler.h>

#include <algorithm>

#include "driver_functions.h"
#include "shim/device.h"
#include "shim/process.h"

namespace vgpu::driver {

using shim::Array;
using shim::Context;
using shim::enter;
using shim::handle_of;
using shim::id_of;
using shim::MipmappedArray;
using shim::Session;

namespace {

CUresult shape_of(const CUDA_ARRAY3D_DESCRIPTOR& descriptor, uint32_t levels, Session& session,
                  const Context& context, ArrayShape* shape) {
  const protocol::DeviceSnapshot* device = session.device(context.device);
  return make_shape(
      descriptor, levels,
      [device](CUdevice_attribute which) { return shim::attribute(*device, which); }, shape);
}

CUresult ask_worker(Session& session, Context* context, uint64_t id, const ArrayShape& shape,
                    uint32_t levels) {
  wire::ArrayCreateArgs args;
  args.array = id;
  args.width = shape.width;
  args.height = shape.height;
  args.depth = shape.depth;
  args.format = static_cast<uint32_t>(shape.format);
  args.channels = shape.channels;
  args.flags = shape.flags;
  args.levels = levels;
  const CUresult result = session.call(context, Op::kArrayCreate, args);
  if (result != CUDA_ERROR_OUT_OF_MEMORY || !session.reclaim(context->device, shape.bytes()))
    return result;
  return session.call(context, Op::kArrayCreate, args);
}

CUresult create(CUarray* out, const CUDA_ARRAY3D_DESCRIPTOR* descriptor) {
  Session* session;
  Context* context;
  if (CUresult r = enter(&session, &context); r != CUDA_SUCCESS) return r;
  if (out == nullptr || descriptor == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Array array;
  array.context = context;
  if (CUresult r = shape_of(*descriptor, 0, *session, *context, &array.shape); r != CUDA_SUCCESS)
    return r;
  if (session->full()) return CUDA_ERROR_OUT_OF_MEMORY;
  const uint64_t id = session->arrays().insert(array);
  if (id == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  const CUresult result = ask_worker(*session, context, id, array.shape, 0);
  if (result == CUDA_SUCCESS)
    *out = handle_of<CUarray>(id);
  else
    session->arrays().remove(id, context);
  return result;
}

CUresult look_up(CUarray handle, Array* array) {
  Session* session;
  Context* context;
  if (CUresult r = enter(&session, &context); r != CUDA_SUCCESS) return r;
  return session->arrays().find(id_of(handle), context, array) ? CUDA_SUCCESS
                                                               : CUDA_ERROR_INVALID_HANDLE;
}

// No array that is sparse, planar or mapped later can be made, so none has an answer.
CUresult not_of_that_kind(CUarray handle) {
  Array array;
  const CUresult result = look_up(handle, &array);
  return result != CUDA_SUCCESS ? result : CUDA_ERROR_INVALID_VALUE;
}

CUresult not_of_that_kind(CUmipmappedArray handle) {
  Session* session;
  Context* context;
  MipmappedArray array;
  if (CUresult r = enter(&session, &context); r != CUDA_SUCCESS) return r;
  return session->arrays().find_mipmapped(id_of(handle), context, &array)
             ? CUDA_ERROR_INVALID_VALUE
             : CUDA_ERROR_INVALID_HANDLE;
}

CUresult check_device(CUdevice device) {
  Session* session;
  if (CUresult r = enter(&session); r != CUDA_SUCCESS) return r;
  return session->device(device) != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

}  // namespace

CUresult cuArrayCreate_v2(CUarray* out, const CUDA_ARRAY_DESCRIPTOR* descriptor) {
  if (descriptor == nullptr) return create(out, nullptr);
  const CUDA_ARRAY3D_DESCRIPTOR flat = to_3d(*descriptor);
  return create(out, &flat);
}

CUresult cuArray3DCreate_v2(CUarray* out, const CUDA_ARRAY3D_DESCRIPTOR* descriptor) {
  return create(out, descriptor);
}

CUresult cuArrayGetDescriptor_v2(CUDA_ARRAY_DESCRIPTOR* out, CUarray handle) {
  Array array;
  if (CUresult r = look_up(handle, &array); r != CUDA_SUCCESS) return r;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = CUDA_ARRAY_DESCRIPTOR{array.shape.width, array.shape.height, array.shape.format,
                               array.shape.channels};
  return CUDA_SUCCESS;
}

CUresult cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR* out, CUarray handle) {
  Array array;
  if (CUresult r = look_up(handle, &array); r != CUDA_SUCCESS) return r;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = array.shape.descriptor();
  return CUDA_SUCCESS;
}

CUresult cuArrayDestroy(CUarray handle) {
  Session* session;
  Context* context;
  if (CUresult r = enter(&session, &context); r != CUDA_SUCCESS) return r;
  if (!session->arrays().remove(id_of(handle), context)) return CUDA_ERROR_INVALID_HANDLE;
  wire::ArrayDestroyArgs args;
  args.array = id_of(handle);
  return session->call(context, Op::kArrayDestroy, args);  // then its memory can be had again
}

CUresult cuMipmappedArrayCreate(CUmipmappedArray* out, const CUDA_ARRAY3D_DESCRIPTOR* descriptor,
                                unsigned int levels) {
  Session* session;
  Context* context;
  if (CUresult r = enter(&session, &context); r != CUDA_SUCCESS) return r;
  if (out == nullptr || descriptor == nullptr) return CUDA_ERROR_INVALID_VALUE;
  MipmappedArray array;
  array.context = context;
  if (CUresult r = shape_of(*descriptor, std::max(levels, 1U), *session, *context, &array.shape);
      r != CUDA_SUCCESS) {
    return r;
  }
  if (session->full()) return CUDA_ERROR_OUT_OF_MEMORY;
  const uint64_t id = session->arrays().insert_mipmapped(array);
  if (id == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  const CUresult result = ask_worker(*session, context, id, array.shape, array.shape.levels);
  if (result == CUDA_SUCCESS)
    *out = handle_of<CUmipmappedArray>(id);
  else
    session->arrays().remove_mipmapped(id, context);
  return result;
}

CUresult cuMipmappedArrayGetLevel(CUarray* out, CUmipmappedArray handle, unsigned int number) {
  Session* session;
  Context* context;
  if (CUresult r = enter(&session, &context); r != CUDA_SUCCESS) return r;
  MipmappedArray array;
  if (!session->arrays().find_mipmapped(id_of(handle), context, &array))
    return CUDA_ERROR_INVALID_HANDLE;
  if (out == nullptr || number >= array.shape.levels) return CUDA_ERROR_INVALID_VALUE;
  bool fresh = false;
  // Nobody else may name the level before the record that makes it.
  std::lock_guard lock(session->channel().lock());
  const uint64_t id = session->arrays().level(id_of(handle), context, number, &fresh);
  if (id == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  if (fresh) {
    wire::ArrayLevelArgs args;
    args.array = id;
    args.mipmapped = id_of(handle);
    args.level = number;
    if (session->post_locked(context, Op::kArrayLevel, args, {}, protocol::kNoReply, nullptr) == 0)
      return session->lost();
  }
  *out = handle_of<CUarray>(id);
  return CUDA_SUCCESS;
}

CUresult cuMipmappedArrayDestroy(CUmipmappedArray handle) {
  Session* session;
  Context* context;
  if (CUresult r = enter(&session, &context); r != CUDA_SUCCESS) return r;
  if (!session->arrays().remove_mipmapped(id_of(handle), context)) return CUDA_ERROR_INVALID_HANDLE;
  wire::MipmappedArrayDestroyArgs args;
  args.mipmapped = id_of(handle);
  return session->call(context, Op::kMipmappedArrayDestroy, args);
}

CUresult cuArrayGetPlane(CUarray*, CUarray handle, unsigned int) {
  return not_of_that_kind(handle);
}

CUresult cuArrayGetSparseProperties(CUDA_ARRAY_SPARSE_PROPERTIES*, CUarray handle) {
  return not_of_that_kind(handle);
}

CUresult cuMipmappedArrayGetSparseProperties(CUDA_ARRAY_SPARSE_PROPERTIES*,
                                             CUmipmappedArray handle) {
  return not_of_that_kind(handle);
}

CUresult cuArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS*, CUarray handle,
                                      CUdevice device) {
  const CUresult known = check_device(device);
  return known != CUDA_SUCCESS ? known : not_of_that_kind(handle);
}

CUresult cuMipmappedArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS*,
                                               CUmipmappedArray handle, CUdevice device) {
  const CUresult known = check_device(device);
  return known != CUDA_SUCCESS ? known : not_of_that_kind(handle);
}

}  // namespace vgpu::driver
