// One reading of the server for its metrics endpoint: plain values, which any thread may hold.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SERVER_METRICS_H_
#define VGPU_SERVER_METRICS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "server/accounts.h"

namespace vgpu::server {

struct GuestReading {
  uint64_t session = 0;
  int32_t pid = 0;
  std::string vgpu;  // the name that the user gave; may be empty, need not be the only one
  std::string tenant, user, executable;
  std::string mode;  // of sharing
  scheduler::Share share;
  double started = 0;  // seconds since 1970
  struct Memory {
    uint32_t device = 0;  // place in Reading::devices
    uint64_t limit_bytes = 0, used_bytes = 0;
  };
  std::vector<Memory> memory;
  Used used;
};

struct DeviceReading {
  std::string uuid, pci_bus_id, name;
  uint64_t memory_bytes = 0, grantable_bytes = 0, granted_bytes = 0, used_bytes = 0;
  double busy = 0;  // Rates::busy
};

struct Reading {
  std::string version, driver;
  int driver_version = 0;
  double started = 0;  // seconds since 1970
  std::vector<DeviceReading> devices;
  std::vector<GuestReading> guests;
  std::map<std::string, Used> tenants;
  Used all;  // of all guests that are there or were
  unsigned waiting_guests = 0, ready_workers = 0;
  uint64_t attached = 0, refused = 0, failed_workers = 0;
  double jain = 1;
};

}  // namespace vgpu::server

#endif  // VGPU_SERVER_METRICS_H_
