// The table of texture and surface objects.
// SPDX-License-Identifier: Apache-2.0
#include "softgpu/exec/texture_view.h"

namespace vgpu::softgpu {

TextureTable& TextureTable::instance() {
  static TextureTable* const table = new TextureTable;
  return *table;
}

uint64_t TextureTable::insert(const TextureView& view) {
  std::lock_guard<std::mutex> lock(mutex_);
  return views_.insert(view);
}

void TextureTable::remove(uint64_t handle) {
  std::lock_guard<std::mutex> lock(mutex_);
  views_.remove(handle);
}

}  // namespace vgpu::softgpu
