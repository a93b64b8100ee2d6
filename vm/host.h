// The host's side of one virtual machine: makes the memory that both share, and says to vgpud what
// the machine's guests say. SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_VM_HOST_H_
#define VGPU_VM_HOST_H_

#include <poll.h>

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/mapping.h"
#include "base/unique_fd.h"
#include "protocol/mailbox/mailbox.h"
#include "protocol/session/messages.h"
#include "vm/beats.h"
#include "vm/doorbell_server.h"

namespace vgpu::vm {

inline constexpr uint64_t kRegionBytesDefault = 256u << 20;
inline constexpr uint32_t kPiecesDefault = 8;

struct HostOptions {
  std::string name;    // of the machine: in front of its guests' names
  std::string server;  // path of vgpud's socket
  std::string qemu;    // path of the socket for ivshmem-doorbell; empty: ivshmem-plain
  uint64_t region_bytes = kRegionBytesDefault;  // a power of two, as QEMU wants
  uint32_t pieces = kPiecesDefault;             // guest processes at a time
};

// Not thread-safe: everything happens in run_once(). Every byte of the region is the machine's to
// write: what is read from it is copied and checked, and what is decided lies in private memory.
class Host {
 public:
  static Result<std::unique_ptr<Host>> create(HostOptions options);

  // The region's descriptor, for QEMU; sealed against shrinking and growing.
  int region() const { return region_.get(); }
  // Waits once for something to do, at most timeout_ms, and does it.
  void run_once(int timeout_ms);
  // Guests that hold a piece of the region.
  uint32_t guests() const;

 private:
  // One guest process of the machine, from its first message until both sides are done with it.
  struct Connection {
    bool opened = false;
    bool guest_done = false;  // the agent has said bye
    bool bye_sent = false;    // we have; not yet when there was no room
    bool asks_info = false;   // an InfoRequest, not a Hello
    UniqueFd server;          // to vgpud, then to the worker; invalid: that side is over
    std::optional<uint32_t> piece;
    uint64_t session = 0;
    bool over() const { return guest_done && bye_sent && !server.valid(); }
  };

  explicit Host(HostOptions options) : options_(std::move(options)) {}
  Status open();
  void look_at_guest();
  void take_up(uint64_t epoch);
  void drop_guest(const char* why);
  void read_mail();
  void said(uint32_t number, const std::vector<uint8_t>& bytes);
  Status forward(Connection* connection, protocol::Message message);
  Status take_piece(Connection* connection);
  Status offer_piece(Connection* connection);
  void heard(uint32_t number, Connection* connection);
  Status take_answer(Connection* connection, protocol::Message* message);
  void refuse(uint32_t number, const Status& why);
  void send_byes();
  void free_if_over(Connection* connection);
  void relay();
  void ring_guest() const;
  int wait_ms(int timeout_ms) const;
  protocol::RegionHeader* header() const;
  protocol::BellKind bell() const;
  bool holds(uint32_t piece) const;

  const HostOptions options_;
  protocol::RegionCut cut_;
  UniqueFd region_;
  Mapping memory_;
  std::unique_ptr<protocol::Mailbox> mail_;
  std::unique_ptr<DoorbellServer> doorbell_;  // null: ivshmem-plain
  std::vector<Connection> connections_{protocol::kVmConnectionsMax};
  std::vector<Connection> draining_;  // of agents before: until their workers have ended
  std::set<uint64_t> sessions_;       // of this machine
  uint64_t epoch_ = 0;                // of the agent whose mail is read; 0: none
  uint64_t dropped_epoch_ = 0;        // of the agent that is not listened to any more
  Beats beats_;
  int64_t active_until_ns_ = 0;
};

}  // namespace vgpu::vm

#endif  // VGPU_VM_HOST_H_
