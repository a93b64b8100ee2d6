// CUDA_VISIBLE_DEVICES, which the driver and not the runtime obeys.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <vector>

namespace vgpu {

// "GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx", as nvidia-smi writes it, of 16 bytes.
std::string device_uuid_text(const unsigned char* uuid);

// Which devices a program sees, in its order: numbers or the beginnings of their texts above, with
// commas between. `list` null: all. The list ends at the first entry that names no device, or not
// one alone; a device that is named twice hides all.
std::vector<int> visible_devices(const char* list, std::span<const std::string> uuids);

}  // namespace vgpu
