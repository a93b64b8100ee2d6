// The private table by which a server meters the work that it gives.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "api/soft_meter.h"

namespace vgpu::softgpu {

// Null when `id` names another table.
const SoftMeterTable* meter_table(const CUuuid& id);

}  // namespace vgpu::softgpu
