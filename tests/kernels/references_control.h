// Expected results of the kernels about control flow.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernel_file.h"

namespace vgpu::softgpu {

// Each fills the buffer with what the kernel file of that name, or the one that refers to it,
// explains.
void sum_then_choose(Buffer* d);
void triangular(Buffer* d);
void wrapped(Buffer* d);
void hashes(Buffer* d);
void spin_registers(Buffer* d);
void member_masks(Buffer* d);
void cluster_barrier_sums(Buffer* d);

}  // namespace vgpu::softgpu
