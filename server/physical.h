// Physical memory that the guest maps itself, and where it has mapped what.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SERVER_PHYSICAL_H_
#define VGPU_SERVER_PHYSICAL_H_

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>

#include "driver_table.h"
#include "server/handles.h"
#include "server/shares.h"

namespace vgpu::server {

// One allocation of cuMemCreate, or one that another session has made.
struct Physical {
  CUmemGenericAllocationHandle handle = 0;
  uint64_t bytes = 0;
  uint32_t device = 0;  // the guest's number
  bool shares = false;  // may be exported
  ShareName name;       // under which it is; no session: not yet
  Charges charges;
  // How often it is mapped; lowered by helpers once the driver has unmapped it.
  std::shared_ptr<std::atomic<uint32_t>> mappings = std::make_shared<std::atomic<uint32_t>>(0);
};

// The consumer's thread.
struct PhysicalTable {
  struct Mapped {
    uint64_t bytes = 0;
    std::shared_ptr<std::atomic<uint32_t>> count;  // null: another session's, opened by IPC
    Charges charges;                               // of another session's
  };
  HandleTable<Physical> handles;
  std::map<uint64_t, Mapped> mappings;  // by address

  // Whether whole mappings fill the range.
  bool exactly_mapped(uint64_t address, uint64_t bytes) const;
  // For a session whose process goes on.
  void release_all(const DriverTable& driver);
};

}  // namespace vgpu::server

#endif  // VGPU_SERVER_PHYSICAL_H_
