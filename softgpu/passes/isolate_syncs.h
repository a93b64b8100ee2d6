// Cuts blocks around operations that wait in divergent code.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "softgpu/passes/kernel.h"

namespace vgpu::softgpu {

// Gives every operation that waits for other lanes a block of its own where lanes may be elsewhere
// when it runs, so that they can park there. Uses the frontiers; true when blocks changed, which
// makes every analysis stale.
bool isolate_syncs(Kernel* kernel);

}  // namespace vgpu::softgpu
