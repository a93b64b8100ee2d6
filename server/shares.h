// What a session shares with other sessions of its user: memory and events under secret names, and
// how two workers hand them over.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SERVER_SHARES_H_
#define VGPU_SERVER_SHARES_H_

#include <cuda.h>

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "base/status.h"
#include "base/unique_fd.h"
#include "driver_table.h"
#include "server/quota.h"

namespace vgpu::server {

inline constexpr size_t kSharesMax = 1 << 16;         // of one session; the next export fails
inline constexpr size_t kSharedHandlesMax = 1 << 20;  // of all of them together
inline constexpr int kShareTimeoutMs = 10000;         // for the other worker to answer

// The secret is random and known only to whom the guest tells it.
struct ShareName {
  uint64_t session = 0;
  uint64_t secret_low = 0, secret_high = 0;
  bool operator==(const ShareName&) const = default;
};

enum class ShareKind : uint32_t { kPhysical = 1, kMemory = 2, kEvent = 3, kPool = 4 };

class PeerEvent;

// What goes ahead of the descriptors.
struct ShareInfo {
  uint64_t magic = 0;
  ShareKind kind = ShareKind::kPhysical;
  uint32_t files = 0;             // of equal size, side by side; kPool: none
  uint64_t bytes = 0;             // of all of them
  uint64_t offset = 0, size = 0;  // kMemory: the allocation within
  uint32_t participant = 0;       // kEvent: who the other side is among those that have it
  uint32_t reserved = 0;
  std::array<uint8_t, 16> device = {};  // UUID of the one that the memory is on
};

// Something shared. Does not change any more once it is in the table; what it holds of the driver
// goes with the last who looks at it.
struct Share {
  explicit Share(const DriverTable* table) : driver(table) {}
  Share(const Share&) = delete;
  Share& operator=(const Share&) = delete;
  ~Share();

  const DriverTable* driver;
  ShareInfo info;
  std::vector<CUmemGenericAllocationHandle> handles;  // one reference each; a file is made of each
  Charges charges;                                    // of the memory
  std::shared_ptr<PeerEvent> event;                   // kEvent: its page is the file
};

// What another session has shared, as it arrived. A descriptor becomes a handle at once: there may
// be more of them than a process may have open.
struct Fetched {
  explicit Fetched(const DriverTable* table) : driver(table) {}
  Fetched(Fetched&&) = default;
  Fetched(const Fetched&) = delete;
  Fetched& operator=(const Fetched&) = delete;
  ~Fetched();

  const DriverTable* driver;
  ShareInfo info;
  std::vector<CUmemGenericAllocationHandle> handles;  // of the memory, one reference each
  UniqueFd page;                                      // kEvent
  Charges charges;                                    // of the memory, whose quota ever that is
  UniqueFd link;  // kEvent: to the other worker, for as long as both have it
};

// Thread-safe.
class Shares {
 public:
  // A new name; no session in it: a limit is reached, or there are no random numbers.
  ShareName add(uint64_t session, std::shared_ptr<const Share> share);
  void remove(const ShareName& name);
  // nullptr: nothing is shared under that name.
  std::shared_ptr<const Share> find(const ShareName& name) const;

 private:
  struct Entry {
    uint64_t secret_high = 0;
    std::shared_ptr<const Share> share;
  };
  mutable std::mutex mutex_;
  std::map<uint64_t, Entry> by_secret_;  // by the low half
  size_t handles_ = 0;                   // of all entries
};

inline constexpr size_t kFetchedMax = 64;  // that wait for the guest to use them

// Thread-safe. By numbers of the guest's choice.
class FetchedTable {
 public:
  // False: too many wait, or one has the number.
  bool add(uint64_t number, std::shared_ptr<Fetched> fetched);
  std::shared_ptr<Fetched> find(uint64_t number) const;
  // False: there is none of that number.
  bool drop(uint64_t number);

 private:
  mutable std::mutex mutex_;
  std::map<uint64_t, std::shared_ptr<Fetched>> by_number_;
};

// Of what is shared in this very process.
Result<Fetched> fetch_here(const Share& share);
// The two ends of a connection between workers. `participant`: as which the other side takes part
// in an event.
Status send_share(int socket, const Share& share, uint32_t participant = 0);
// `admit` is told what it is before any of it arrives.
using Admit = std::function<Status(Fetched*)>;
Result<Fetched> receive_share(int socket, const DriverTable& driver, const Admit& admit);

// How a worker reaches those of other sessions. Thread-safe.
class Peers {
 public:
  virtual ~Peers() = default;
  // A connection to the worker of `name.session`, if it is of the same user; that worker has been
  // told the name and answers with send_share, or hangs up.
  virtual Result<UniqueFd> reach(const ShareName& name) = 0;
};

}  // namespace vgpu::server

#endif  // VGPU_SERVER_SHARES_H_
