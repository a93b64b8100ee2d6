// Texture and surface objects.
// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>
#include <cudaProfiler.h>

#include "driver_functions.h"
#include "softgpu/api/driver.h"
#include "softgpu/api/texture_object.h"

namespace vgpu::driver {
namespace {

using softgpu::Context;
using softgpu::Driver;
using softgpu::TextureKind;
using softgpu::TextureObject;
using softgpu::TextureView;

CUresult look_up(uint64_t handle, TextureKind kind, const void* out,
                 std::shared_ptr<const TextureObject>* object) {
  Context* context = nullptr;
  if (const CUresult result = softgpu::enter(&context); result != CUDA_SUCCESS) return result;
  *object = Driver::instance().textures.find(handle, kind);
  return out == nullptr || *object == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

// Kernels that may still use the object are waited for.
CUresult destroy(uint64_t handle, TextureKind kind) {
  Context* context = nullptr;
  if (const CUresult result = softgpu::enter_ignoring_errors(&context); result != CUDA_SUCCESS)
    return result;
  if (Driver::instance().textures.find(handle, kind) == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const CUresult sticky = context->synchronise();
  Driver::instance().textures.remove(handle);
  return sticky;
}

}  // namespace

CUresult cuTexObjectCreate(CUtexObject* out, const CUDA_RESOURCE_DESC* resource,
                           const CUDA_TEXTURE_DESC* texture, const CUDA_RESOURCE_VIEW_DESC* view) {
  Context* context = nullptr;
  if (const CUresult result = softgpu::enter(&context); result != CUDA_SUCCESS) return result;
  if (out == nullptr || resource == nullptr || texture == nullptr) return CUDA_ERROR_INVALID_VALUE;
  auto object = std::make_shared<TextureObject>();
  object->context = context;
  object->resource = *resource;
  object->texture = *texture;
  if (view != nullptr) object->view = *view;
  TextureView seen;
  const CUresult made = softgpu::make_texture_view(*context, object.get(), &seen);
  if (made != CUDA_SUCCESS) return made;
  *out = Driver::instance().textures.insert(std::move(object), seen);
  return *out != 0 ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuTexObjectDestroy(CUtexObject handle) { return destroy(handle, TextureKind::kTexture); }

CUresult cuTexObjectGetResourceDesc(CUDA_RESOURCE_DESC* out, CUtexObject handle) {
  std::shared_ptr<const TextureObject> object;
  const CUresult result = look_up(handle, TextureKind::kTexture, out, &object);
  if (result == CUDA_SUCCESS) *out = object->resource;
  return result;
}

CUresult cuTexObjectGetTextureDesc(CUDA_TEXTURE_DESC* out, CUtexObject handle) {
  std::shared_ptr<const TextureObject> object;
  const CUresult result = look_up(handle, TextureKind::kTexture, out, &object);
  if (result == CUDA_SUCCESS) *out = object->texture;
  return result;
}

CUresult cuTexObjectGetResourceViewDesc(CUDA_RESOURCE_VIEW_DESC* out, CUtexObject handle) {
  std::shared_ptr<const TextureObject> object;
  const CUresult result = look_up(handle, TextureKind::kTexture, out, &object);
  if (result != CUDA_SUCCESS) return result;
  if (!object->view.has_value()) return CUDA_ERROR_INVALID_VALUE;
  *out = *object->view;
  return CUDA_SUCCESS;
}

CUresult cuSurfObjectCreate(CUsurfObject* out, const CUDA_RESOURCE_DESC* resource) {
  Context* context = nullptr;
  if (const CUresult result = softgpu::enter(&context); result != CUDA_SUCCESS) return result;
  if (out == nullptr || resource == nullptr) return CUDA_ERROR_INVALID_VALUE;
  auto object = std::make_shared<TextureObject>();
  object->context = context;
  object->resource = *resource;
  TextureView seen;
  const CUresult made = softgpu::make_surface_view(*context, object.get(), &seen);
  if (made != CUDA_SUCCESS) return made;
  *out = Driver::instance().textures.insert(std::move(object), seen);
  return *out != 0 ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuSurfObjectDestroy(CUsurfObject handle) { return destroy(handle, TextureKind::kSurface); }

CUresult cuSurfObjectGetResourceDesc(CUDA_RESOURCE_DESC* out, CUsurfObject handle) {
  std::shared_ptr<const TextureObject> object;
  const CUresult result = look_up(handle, TextureKind::kSurface, out, &object);
  if (result == CUDA_SUCCESS) *out = object->resource;
  return result;
}

}  // namespace vgpu::driver
