// Texture and surface objects of a context: what they were made from, and their place in the
// device's table.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "softgpu/api/array_object.h"
#include "softgpu/exec/texture_view.h"

namespace vgpu::softgpu {

// Immutable.
struct TextureObject {
  TextureKind kind = TextureKind::kTexture;
  const Context* context = nullptr;
  CUDA_RESOURCE_DESC resource = {};
  CUDA_TEXTURE_DESC texture = {};  // of textures only
  std::optional<CUDA_RESOURCE_VIEW_DESC> view;
  std::shared_ptr<ArrayStorage> storage;  // of an array: kept while the object lives
};

// Thread-safe.
class TextureObjects {
 public:
  // Makes the object and its handle; 0 when all handles are taken.
  uint64_t insert(std::shared_ptr<const TextureObject> object, const TextureView& view);
  // nullptr when `handle` is no object of this kind.
  std::shared_ptr<const TextureObject> find(uint64_t handle, TextureKind kind) const;
  // The caller has waited for the kernels that may use it.
  void remove(uint64_t handle);
  void forget_context(const Context& context);

 private:
  mutable std::mutex mutex_;
  std::map<uint64_t, std::shared_ptr<const TextureObject>> objects_;
};

// Checks the descriptors as cuTexObjectCreate does and says what kernels will see.
CUresult make_texture_view(Context& context, TextureObject* object, TextureView* view);
// And as cuSurfObjectCreate does.
CUresult make_surface_view(Context& context, TextureObject* object, TextureView* view);

}  // namespace vgpu::softgpu
