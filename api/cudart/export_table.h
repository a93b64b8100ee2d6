// cuGetExportTable: the private tables that libcudart and NVIDIA's libraries ask a driver for.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>

namespace vgpu::cudart {

// Success always comes with a table whose every word can be called; an unknown id gives
// CUDA_ERROR_INVALID_VALUE and nullptr. Tables have fixed addresses and contents for the life of
// the process.
CUresult get_export_table(const void** table, const CUuuid* id);

}  // namespace vgpu::cudart
