// Where compiled kernels are kept between processes.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_BASE_CACHE_FOLDER_H_
#define VGPU_BASE_CACHE_FOLDER_H_

#include <string>

namespace vgpu {

// VGPU_SOFTGPU_CACHE, else the user's cache folder; /var/cache/vgpu/softgpu for root, whose workers
// run as other users and shall read it. Empty: none, as for set-user-id programs and the values
// "off" and "0". The software GPU writes there; the server lets its workers read there.
std::string compiled_kernels_folder();

}  // namespace vgpu

#endif  // VGPU_BASE_CACHE_FOLDER_H_
