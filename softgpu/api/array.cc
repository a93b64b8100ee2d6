// CUDA arrays and mipmapped arrays.
// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>
#include <cudaProfiler.h>

#include <algorithm>

#include "driver_functions.h"
#include "softgpu/api/array_object.h"
#include "softgpu/api/attributes.h"
#include "softgpu/api/driver.h"

namespace vgpu::driver {
namespace {

using softgpu::Array;
using softgpu::Context;
using softgpu::enter;
using softgpu::enter_ignoring_errors;
using softgpu::find_array;
using softgpu::find_mipmapped;
using softgpu::MipmappedArray;

CUresult shape_of(const CUDA_ARRAY3D_DESCRIPTOR& descriptor, uint32_t levels, Context& context,
                  ArrayShape* shape) {
  const softgpu::DeviceConfig& config = context.device().config();
  return make_shape(
      descriptor, levels,
      [&config](CUdevice_attribute which) { return softgpu::device_attribute(config, which); },
      shape);
}

CUresult create(CUarray* out, const CUDA_ARRAY3D_DESCRIPTOR* descriptor) {
  Context* context = nullptr;
  if (const CUresult result = enter(&context); result != CUDA_SUCCESS) return result;
  if (out == nullptr || descriptor == nullptr) return CUDA_ERROR_INVALID_VALUE;
  ArrayShape shape;
  if (const CUresult r = shape_of(*descriptor, 0, *context, &shape); r != CUDA_SUCCESS) return r;
  return softgpu::create_array(context, shape, out);
}

// The array behind a handle, for calls that only look.
CUresult look_up(CUarray handle, std::shared_ptr<Array>* array) {
  Context* context = nullptr;
  if (const CUresult result = enter(&context); result != CUDA_SUCCESS) return result;
  *array = find_array(*context, handle);
  return *array == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
}

CUresult look_up(CUmipmappedArray handle, std::shared_ptr<MipmappedArray>* array) {
  Context* context = nullptr;
  if (const CUresult result = enter(&context); result != CUDA_SUCCESS) return result;
  *array = find_mipmapped(*context, handle);
  return *array == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
}

// The answer to questions about sparse arrays, planes and arrays that are mapped later: none of
// these can be made here, so no array has an answer.
template <typename T, typename Handle>
CUresult not_of_that_kind(Handle handle) {
  std::shared_ptr<T> array;
  const CUresult result = look_up(handle, &array);
  return result != CUDA_SUCCESS ? result : CUDA_ERROR_INVALID_VALUE;
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
  std::shared_ptr<Array> array;
  if (const CUresult result = look_up(handle, &array); result != CUDA_SUCCESS) return result;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  out->Width = array->shape.width;
  out->Height = array->shape.height;
  out->Format = array->shape.format;
  out->NumChannels = array->shape.channels;
  return CUDA_SUCCESS;
}

CUresult cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR* out, CUarray handle) {
  std::shared_ptr<Array> array;
  if (const CUresult result = look_up(handle, &array); result != CUDA_SUCCESS) return result;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = array->shape.descriptor();
  return CUDA_SUCCESS;
}

// What may still use the array is waited for, as cuMemFree does.
CUresult cuArrayDestroy(CUarray handle) {
  Context* context = nullptr;
  if (const CUresult result = enter_ignoring_errors(&context); result != CUDA_SUCCESS)
    return result;
  const std::shared_ptr<Array> array = find_array(*context, handle);
  if (array == nullptr || array->of_mipmapped) return CUDA_ERROR_INVALID_HANDLE;
  const CUresult sticky = context->synchronise();
  softgpu::Driver::instance().arrays.remove(handle);
  return sticky;
}

CUresult cuMipmappedArrayCreate(CUmipmappedArray* out, const CUDA_ARRAY3D_DESCRIPTOR* descriptor,
                                unsigned int levels) {
  Context* context = nullptr;
  if (const CUresult result = enter(&context); result != CUDA_SUCCESS) return result;
  if (out == nullptr || descriptor == nullptr) return CUDA_ERROR_INVALID_VALUE;
  ArrayShape shape;
  const CUresult result = shape_of(*descriptor, std::max(levels, 1U), *context, &shape);
  return result != CUDA_SUCCESS ? result : softgpu::create_mipmapped(context, shape, out);
}

CUresult cuMipmappedArrayGetLevel(CUarray* out, CUmipmappedArray handle, unsigned int level) {
  std::shared_ptr<MipmappedArray> array;
  if (const CUresult result = look_up(handle, &array); result != CUDA_SUCCESS) return result;
  if (out == nullptr || level >= array->levels.size()) return CUDA_ERROR_INVALID_VALUE;
  *out = array->levels[level];
  return CUDA_SUCCESS;
}

CUresult cuMipmappedArrayDestroy(CUmipmappedArray handle) {
  Context* context = nullptr;
  if (const CUresult result = enter_ignoring_errors(&context); result != CUDA_SUCCESS)
    return result;
  const std::shared_ptr<MipmappedArray> array = find_mipmapped(*context, handle);
  if (array == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const CUresult sticky = context->synchronise();
  softgpu::destroy_mipmapped(*array, handle);
  return sticky;
}

CUresult cuArrayGetPlane(CUarray*, CUarray handle, unsigned int) {
  return not_of_that_kind<Array>(handle);
}

CUresult cuArrayGetSparseProperties(CUDA_ARRAY_SPARSE_PROPERTIES*, CUarray handle) {
  return not_of_that_kind<Array>(handle);
}

CUresult cuMipmappedArrayGetSparseProperties(CUDA_ARRAY_SPARSE_PROPERTIES*,
                                             CUmipmappedArray handle) {
  return not_of_that_kind<MipmappedArray>(handle);
}

CUresult cuArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS*, CUarray handle,
                                      CUdevice device) {
  if (const CUresult result = softgpu::check_device(device); result != CUDA_SUCCESS) return result;
  return not_of_that_kind<Array>(handle);
}

CUresult cuMipmappedArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS*,
                                               CUmipmappedArray handle, CUdevice device) {
  if (const CUresult result = softgpu::check_device(device); result != CUDA_SUCCESS) return result;
  return not_of_that_kind<MipmappedArray>(handle);
}

}  // namespace vgpu::driver
