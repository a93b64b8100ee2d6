// The driver's linker for guests: inputs arrive as uploads, what was linked is fetched.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SERVER_LINK_H_
#define VGPU_SERVER_LINK_H_

#include <cuda.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "driver_table.h"

namespace vgpu::server {

struct Context;

// A link in progress. Helpers work on it one at a time; its context is current wherever it ends.
struct Link {
  Link(const DriverTable* table, Context* owner) : driver(table), context(owner) {}
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;
  ~Link();

  const DriverTable* const driver;
  Context* const context;
  uint32_t log_bytes = 0;
  uint32_t max_registers = 0;       // 0 = not given
  int32_t optimization_level = -1;  // -1 = not given

  std::mutex mutex;  // guards the rest
  CUlinkState state = nullptr;
  // The driver writes there until the state ends.
  std::vector<char> infos, errors;
  std::vector<void*> option_values;
  const uint8_t* image = nullptr;  // the driver's, as long as the state
  size_t image_bytes = 0;
};

struct LinkEntry {
  std::shared_ptr<Link> link;
};

}  // namespace vgpu::server

#endif  // VGPU_SERVER_LINK_H_
