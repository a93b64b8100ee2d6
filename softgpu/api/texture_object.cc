// From descriptors to what a fetch needs.
// SPDX-License-Identifier: Apache-2.0
#include "softgpu/api/texture_object.h"

#include <utility>
#include <vector>

#include "softgpu/api/attributes.h"
#include "softgpu/api/driver.h"

namespace vgpu::softgpu {
namespace {

constexpr unsigned kTextureFlags = CU_TRSF_READ_AS_INTEGER | CU_TRSF_NORMALIZED_COORDINATES |
                                   CU_TRSF_SRGB | CU_TRSF_DISABLE_TRILINEAR_OPTIMIZATION |
                                   CU_TRSF_SEAMLESS_CUBEMAP;

uint64_t limit(Context& context, CUdevice_attribute which) {
  return static_cast<uint64_t>(device_attribute(context.device().config(), which));
}

bool set_format(CUarray_format format, unsigned channels, TextureView* view) {
  view->format = format;
  view->channels = channels;
  view->channel_bytes = channel_bytes(format);
  return view->channel_bytes != 0 && (channels == 1 || channels == 2 || channels == 4);
}

void set_level(uint64_t data, const LevelExtent& e, uint64_t texel_bytes, TextureLevel* level) {
  level->data = reinterpret_cast<const uint8_t*>(data);
  level->width = static_cast<uint32_t>(e.width);
  level->height = static_cast<uint32_t>(e.height);
  level->slices = static_cast<uint32_t>(e.slices);
  level->pitch = e.width * texel_bytes;
  level->slice = level->pitch * e.height;
}

void set_array(uint64_t data, const ArrayShape& shape, TextureView* view) {
  set_format(shape.format, shape.channels, view);
  view->depth = shape.has_depth();
  view->level_count = std::min(shape.levels, kTextureLevelsMax);
  for (uint32_t i = 0; i < view->level_count; ++i)
    set_level(data + shape.level_offset(i), shape.extent(i), shape.texel_bytes(), &view->level[i]);
}

CUresult set_linear(Context& context, const CUDA_RESOURCE_DESC& resource, TextureView* view) {
  const auto& linear = resource.res.linear;
  if (!set_format(linear.format, linear.numChannels, view)) return CUDA_ERROR_INVALID_VALUE;
  const uint64_t texels = linear.sizeInBytes / view->texel_bytes();
  if (texels == 0 || texels > limit(context, CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LINEAR_WIDTH) ||
      linear.devPtr % limit(context, CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT) != 0 ||
      !context.device().memory().covers(linear.devPtr, texels * view->texel_bytes())) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  view->linear_memory = true;
  set_level(linear.devPtr, {texels, 1, 1}, view->texel_bytes(), &view->level[0]);
  return CUDA_SUCCESS;
}

CUresult set_pitch2d(Context& context, const CUDA_RESOURCE_DESC& resource, TextureView* view) {
  const auto& plane = resource.res.pitch2D;
  if (!set_format(plane.format, plane.numChannels, view)) return CUDA_ERROR_INVALID_VALUE;
  const auto within = [&context](uint64_t value, CUdevice_attribute most) {
    return value >= 1 && value <= limit(context, most);
  };
  if (!within(plane.width, CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_WIDTH) ||
      !within(plane.height, CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_HEIGHT) ||
      !within(plane.pitchInBytes, CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_PITCH)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const uint64_t row = plane.width * view->texel_bytes();
  if (plane.devPtr % limit(context, CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT) != 0 ||
      plane.pitchInBytes % limit(context, CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT) != 0 ||
      plane.pitchInBytes < row ||
      !context.device().memory().covers(plane.devPtr,
                                        (plane.height - 1) * plane.pitchInBytes + row)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  set_level(plane.devPtr, {plane.width, plane.height, 1}, view->texel_bytes(), &view->level[0]);
  view->level[0].pitch = plane.pitchInBytes;
  return CUDA_SUCCESS;
}

// The shape of the array behind a resource; levels > 1 only for mipmapped ones.
CUresult set_resource(Context& context, TextureObject* object, TextureView* view,
                      ArrayShape* shape) {
  const CUDA_RESOURCE_DESC& resource = object->resource;
  if (resource.flags != 0) return CUDA_ERROR_INVALID_VALUE;
  switch (resource.resType) {
    case CU_RESOURCE_TYPE_ARRAY: {
      const std::shared_ptr<Array> array = find_array(context, resource.res.array.hArray);
      if (array == nullptr) return CUDA_ERROR_INVALID_HANDLE;
      object->storage = array->storage;
      *shape = array->shape;
      set_array(array->data, *shape, view);
      return CUDA_SUCCESS;
    }
    case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY: {
      const std::shared_ptr<MipmappedArray> array =
          find_mipmapped(context, resource.res.mipmap.hMipmappedArray);
      if (array == nullptr) return CUDA_ERROR_INVALID_HANDLE;
      object->storage = array->storage;
      *shape = array->shape;
      set_array(array->storage->address(), *shape, view);
      return CUDA_SUCCESS;
    }
    case CU_RESOURCE_TYPE_LINEAR:
      return set_linear(context, resource, view);
    case CU_RESOURCE_TYPE_PITCH2D:
      return set_pitch2d(context, resource, view);
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

struct ViewFormat {
  CUarray_format format;
  unsigned channels;
};

// Formats of resource views come in threes: one, two and four channels.
bool view_format(CUresourceViewFormat which, ViewFormat* out) {
  constexpr CUarray_format kFormats[] = {CU_AD_FORMAT_UNSIGNED_INT8,  CU_AD_FORMAT_SIGNED_INT8,
                                         CU_AD_FORMAT_UNSIGNED_INT16, CU_AD_FORMAT_SIGNED_INT16,
                                         CU_AD_FORMAT_UNSIGNED_INT32, CU_AD_FORMAT_SIGNED_INT32,
                                         CU_AD_FORMAT_HALF,           CU_AD_FORMAT_FLOAT};
  const int index = static_cast<int>(which) - CU_RES_VIEW_FORMAT_UINT_1X8;
  if (index < 0 || which > CU_RES_VIEW_FORMAT_FLOAT_4X32) return false;
  *out = {kFormats[index / 3], 1u << (index % 3)};
  return true;
}

CUresult apply_view(const CUDA_RESOURCE_VIEW_DESC& wanted, const ArrayShape& shape,
                    TextureView* view) {
  if (wanted.format > CU_RES_VIEW_FORMAT_FLOAT_4X32)
    return wanted.format <= CU_RES_VIEW_FORMAT_UNSIGNED_BC7 ? CUDA_ERROR_NOT_SUPPORTED
                                                            : CUDA_ERROR_INVALID_VALUE;
  ViewFormat format;
  if (view_format(wanted.format, &format)) {
    const uint32_t before = view->texel_bytes();
    if (!set_format(format.format, format.channels, view) || view->texel_bytes() != before)
      return CUDA_ERROR_INVALID_VALUE;
  }
  const bool has_layers = shape.layered() || shape.cubemap();
  const uint32_t last_layer = wanted.lastLayer == 0 && wanted.firstLayer == 0 && has_layers
                                  ? static_cast<uint32_t>(shape.depth) - 1
                                  : wanted.lastLayer;
  if (wanted.width != shape.width || wanted.height != shape.height || wanted.depth != shape.depth ||
      wanted.firstMipmapLevel > wanted.lastMipmapLevel || wanted.lastMipmapLevel >= shape.levels ||
      wanted.firstLayer > last_layer || last_layer >= (has_layers ? shape.depth : 1)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  view->level_count = wanted.lastMipmapLevel - wanted.firstMipmapLevel + 1;
  for (uint32_t i = 0; i < view->level_count; ++i) {
    TextureLevel level = view->level[i + wanted.firstMipmapLevel];
    if (has_layers) {
      level.data += wanted.firstLayer * level.slice;
      level.slices = last_layer - wanted.firstLayer + 1;
    }
    view->level[i] = level;
  }
  return CUDA_SUCCESS;
}

CUresult apply_sampling(const CUDA_TEXTURE_DESC& t, bool mipmapped, bool cubemap,
                        TextureView* view) {
  for (int axis = 0; axis < 3; ++axis) {
    if (t.addressMode[axis] > CU_TR_ADDRESS_MODE_BORDER) return CUDA_ERROR_INVALID_VALUE;
    view->address_mode[axis] = t.addressMode[axis];
  }
  const bool normalized = (t.flags & CU_TRSF_NORMALIZED_COORDINATES) != 0;
  if (t.filterMode > CU_TR_FILTER_MODE_LINEAR || t.mipmapFilterMode > CU_TR_FILTER_MODE_LINEAR ||
      (t.flags & ~kTextureFlags) != 0 || (mipmapped && !normalized) ||
      ((t.flags & CU_TRSF_SEAMLESS_CUBEMAP) != 0 && !cubemap)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  view->normalized = normalized;
  view->linear_filter = t.filterMode == CU_TR_FILTER_MODE_LINEAR;
  view->linear_mip_filter = t.mipmapFilterMode == CU_TR_FILTER_MODE_LINEAR;
  view->seamless = (t.flags & CU_TRSF_SEAMLESS_CUBEMAP) != 0;
  if (view->seamless) {
    for (CUaddress_mode& mode : view->address_mode) mode = CU_TR_ADDRESS_MODE_CLAMP;
  }
  const bool real = view->format == CU_AD_FORMAT_HALF || view->format == CU_AD_FORMAT_FLOAT;
  const bool promoted = view->channel_bytes < 4 && (t.flags & CU_TRSF_READ_AS_INTEGER) == 0;
  view->as_float = real || promoted;
  view->srgb =
      (t.flags & CU_TRSF_SRGB) != 0 && view->as_float && view->format == CU_AD_FORMAT_UNSIGNED_INT8;
  view->level_bias = t.mipmapLevelBias;
  view->level_min = t.minMipmapLevelClamp;
  view->level_max = t.maxMipmapLevelClamp;
  for (int c = 0; c < 4; ++c) view->border[c] = t.borderColor[c];
  return CUDA_SUCCESS;
}

}  // namespace

CUresult make_texture_view(Context& context, TextureObject* object, TextureView* view) {
  ArrayShape shape;
  object->kind = view->kind = TextureKind::kTexture;
  if (const CUresult r = set_resource(context, object, view, &shape); r != CUDA_SUCCESS) return r;
  const CUresourcetype type = object->resource.resType;
  if (object->view.has_value()) {
    if (type == CU_RESOURCE_TYPE_LINEAR || type == CU_RESOURCE_TYPE_PITCH2D)
      return CUDA_ERROR_INVALID_VALUE;
    if (const CUresult r = apply_view(*object->view, shape, view); r != CUDA_SUCCESS) return r;
  }
  return apply_sampling(object->texture, type == CU_RESOURCE_TYPE_MIPMAPPED_ARRAY,
                        shape.cubemap() && object->storage != nullptr, view);
}

CUresult make_surface_view(Context& context, TextureObject* object, TextureView* view) {
  if (object->resource.resType != CU_RESOURCE_TYPE_ARRAY) return CUDA_ERROR_INVALID_VALUE;
  ArrayShape shape;
  object->kind = view->kind = TextureKind::kSurface;
  if (const CUresult r = set_resource(context, object, view, &shape); r != CUDA_SUCCESS) return r;
  return (shape.flags & CUDA_ARRAY3D_SURFACE_LDST) != 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

uint64_t TextureObjects::insert(std::shared_ptr<const TextureObject> object,
                                const TextureView& view) {
  const uint64_t handle = TextureTable::instance().insert(view);
  if (handle == 0) return 0;
  std::lock_guard<std::mutex> lock(mutex_);
  objects_[handle] = std::move(object);
  return handle;
}

std::shared_ptr<const TextureObject> TextureObjects::find(uint64_t handle, TextureKind kind) const {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = objects_.find(handle);
  return found == objects_.end() || found->second->kind != kind ? nullptr : found->second;
}

void TextureObjects::remove(uint64_t handle) {
  std::shared_ptr<const TextureObject> ended;  // without our lock
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = objects_.find(handle);
  if (found == objects_.end()) return;
  ended = std::move(found->second);
  objects_.erase(found);
  TextureTable::instance().remove(handle);
}

void TextureObjects::forget_context(const Context& context) {
  std::vector<uint64_t> handles;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    for (const auto& [handle, object] : objects_) {
      if (object->context == &context) handles.push_back(handle);
    }
  }
  for (const uint64_t handle : handles) remove(handle);
}

}  // namespace vgpu::softgpu
