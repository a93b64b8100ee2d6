// Which CUDA driver a worker loads: NVIDIA's where a GPU answers, else the software GPU.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SERVER_DRIVER_CHOICE_H_
#define VGPU_SERVER_DRIVER_CHOICE_H_

#include <string>

#include "driver_table.h"
#include "server/attach.h"
#include "server/worker_link.h"

namespace vgpu::server {

struct DriverChoice {
  DriverKind kind = DriverKind::kSoft;
  std::string path;
  std::string why;  // one line for a person
  DriverTable table;
};

// Loads the driver that `wanted` (auto, nvidia, soft or a path) names. Auto takes NVIDIA's when
// cuInit and a device answer. Never takes our own shim. Failure says what was tried.
Result<DriverChoice> choose_driver(const std::string& wanted);

// The software GPU's library: VGPU_SOFT_DRIVER, else beside this program in the build or install
// tree. Empty when there is none.
std::string soft_driver_path();

// Whether the library file is our guest library, which must never serve as a driver.
bool is_guest_library(const std::string& path);

// Path of a guest library that LD_PRELOAD or LD_LIBRARY_PATH would put into this process; empty
// when there is none.
std::string guest_library_in_environment();

}  // namespace vgpu::server

#endif  // VGPU_SERVER_DRIVER_CHOICE_H_
