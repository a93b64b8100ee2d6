// What guests have used, as counters that only grow: for the metrics endpoint.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SERVER_ACCOUNTS_H_
#define VGPU_SERVER_ACCOUNTS_H_

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "scheduler/share.h"
#include "server/worker_link.h"

namespace vgpu::server {

inline constexpr size_t kTenantsCounted = 1024;  // the next ones are counted together as "other"
inline constexpr uint64_t kRateWindowNs = 1'000'000'000;  // rates are over this long at least

// Counters of one guest or one tenant. Floating point, so that no sum can overflow, whatever a
// worker has written.
struct Used {
  double kernels = 0;
  double copied_to = 0, copied_from = 0;  // bytes
  double refused = 0;                     // allocations over the quota
  std::array<double, scheduler::kEngines> engine_seconds{};
  double wait_seconds = 0;
  double throttled_seconds = 0;
  std::array<double, kWaitBuckets> waits{};  // pieces that waited, by how long (kWaitBoundsNs)

  Used& operator+=(const Used& other);
  // Takes what is larger there.
  void raise_to(const Used& other);
};
Used read_used(const WorkerPage& page);

// Not thread-safe. A worker is as untrusted as its guest and may write anything into its page:
// what has been seen once is not taken back.
class Accounts {
 public:
  // What the guest has used, from its newest reading.
  const Used& read(uint64_t session, const std::string& tenant, const Used& now);
  // The guest is gone: what it used stays with its tenant. An unknown one changes nothing.
  void end(uint64_t session);
  // Of each tenant ever seen: guests that are there and those that are gone.
  std::map<std::string, Used> tenants() const;
  // Of all guests that are gone.
  const Used& ended() const { return ended_; }

 private:
  struct Guest {
    std::string tenant;
    Used used;
  };
  std::map<uint64_t, Guest> guests_;
  std::map<std::string, Used> ended_tenants_;
  Used ended_;
};

// One guest in one reading, for rates.
struct RateSample {
  uint64_t session = 0;
  uint32_t weight = 1;
  double compute_seconds = 0;
  double wait_seconds = 0;
  std::vector<uint32_t> devices;
};

// What happened between two readings. Not thread-safe.
class Rates {
 public:
  // Keeps the reading as the next window's beginning when the last one is kRateWindowNs old.
  void add(uint64_t now_ns, std::vector<RateSample> samples);
  // Part of the time that a device computed for guests, 0 to 1.
  double busy(uint32_t device) const;
  // Jain's index of compute time over weight, among guests that waited for their turn in the
  // window: 1 is equal shares, 1/n that one of n had everything. 1 with fewer than two.
  double jain() const { return jain_; }

 private:
  uint64_t before_ns_ = 0;
  std::map<uint64_t, RateSample> before_;
  std::map<uint32_t, double> busy_;
  double jain_ = 1;
};

}  // namespace vgpu::server

#endif  // VGPU_SERVER_ACCOUNTS_H_
