// Who was granted how much of the device's memory. Nothing is ever sold twice.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SERVER_GRANTS_H_
#define VGPU_SERVER_GRANTS_H_

#include <cstdint>
#include <map>
#include <mutex>

#include "base/status.h"

namespace vgpu::server {

inline constexpr uint64_t kGrantStepBytes = 2u << 20;  // grants are rounded up to whole handles

// Thread-safe. The sum of all grants stays within the capacity, but for guests adopted from an
// earlier server, which hold theirs already.
class Grants {
 public:
  // Capacity = the device's memory less the headroom. The default is what a guest gets that names
  // no size; 0 = a quarter of the capacity.
  void set_capacity(uint64_t device_bytes, uint64_t headroom_bytes, uint64_t default_bytes);

  // Grants `wanted_bytes` (0 = the default) to a session and says how much that is.
  // kResourceExhausted: the text names what is free. kAlreadyExists: a session has one grant.
  Result<uint64_t> take(uint64_t session, uint64_t wanted_bytes);
  // A session that another server had granted. False, and nothing changes, when the session is
  // known already or nobody can have that many bytes.
  bool adopt(uint64_t session, uint64_t bytes);
  // The session is over. An unknown one changes nothing.
  void give_back(uint64_t session);

  uint64_t capacity() const;
  uint64_t granted() const;
  uint64_t free_bytes() const;

 private:
  uint64_t free_locked() const { return granted_ < capacity_ ? capacity_ - granted_ : 0; }

  mutable std::mutex mutex_;
  uint64_t capacity_ = 0;
  uint64_t default_ = 0;
  uint64_t granted_ = 0;
  std::map<uint64_t, uint64_t> by_session_;
};

// "512 MiB" and so on, for messages.
std::string size_text(uint64_t bytes);

}  // namespace vgpu::server

#endif  // VGPU_SERVER_GRANTS_H_
