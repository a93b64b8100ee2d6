// Grids and what belongs to them.
// SPDX-License-Identifier: Apache-2.0
#include "softgpu/exec/grid.h"

#include "softgpu/exec/grid_family.h"
#include "softgpu/exec/kernel_host.h"
#include "softgpu/exec/stream_queue.h"

namespace vgpu::softgpu {

Grid::Grid() = default;
Grid::~Grid() = default;

GridFamily& Grid::family() {
  std::call_once(family_made_, [this] { family_ = std::make_unique<GridFamily>(); });
  return *family_;
}

}  // namespace vgpu::softgpu
