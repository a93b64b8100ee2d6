// What vgpud and its workers say to each other over their socket pair.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SERVER_WORKER_LINK_H_
#define VGPU_SERVER_WORKER_LINK_H_

#include <atomic>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <span>
#include <string>
#include <vector>

#include "base/mapping.h"
#include "base/status.h"
#include "base/unique_fd.h"
#include "protocol/limits.h"
#include "protocol/session/figures.h"
#include "protocol/transport/control_socket.h"
#include "scheduler/share.h"
#include "server/policy.h"
#include "server/turn_board.h"

namespace vgpu::server {

// Both are built from one tree and installed together, so these are plain structs; `magic` carries
// the version, and the control protocol for guests is another one.
inline constexpr uint64_t kWorkerMagic = 0x766770'77'0009;  // raised with every change below

// One of the devices that are served, in the order of --devices.
struct ServedDevice {
  uint64_t memory_bytes = 0;
  uint8_t uuid[16] = {};
  char pci_bus_id[32] = {};
  char name[128] = {};
  int32_t facts[protocol::kDeviceFacts] = {};  // by number of protocol::DeviceFact
  uint32_t reaches_host_memory = 0;  // kernels reach all of the worker's own memory: HMM or ATS
  int32_t ordinal = 0;               // the driver's number
};

// worker -> vgpud, once the first device is open. Descriptor: the page of WorkerPage.
struct WorkerReady {
  uint64_t magic = kWorkerMagic;
  int32_t driver_version = 0;
  int32_t driver_kind = 0;  // DriverKind
  uint32_t device_count = 0;
  uint32_t reserved = 0;
  ServedDevice devices[protocol::kDevicesMax];
  char driver_path[512] = {};
  char why[256] = {};  // why this driver was chosen
};

// What a guest has of the devices, in its order.
struct WorkerGrants {
  uint32_t count = 0;
  uint32_t reserved = 0;
  uint32_t device[protocol::kDevicesMax] = {};  // its place among those that are served
  uint64_t bytes[protocol::kDevicesMax] = {};
};

// Under which terms a guest was let in. The worker enforces the limits; the rest it keeps for the
// next vgpud.
struct GuestRecord {
  GuestAsk ask;  // what it asked for
  GuestAsk set;  // what an operator has set since
  protocol::GuestLimits limits;
  uint32_t exclusive = 0;   // it has whole devices
  uint32_t mode = 0;        // SharingMode
  uint32_t mps_number = 0;  // MpsDaemon's
  uint32_t reserved = 0;
  uint64_t memory_most = 0;  // that its environment allows on each device; 0: no bound
  char tenant[kPolicyNameBytesMax + 1] = {};
  char profile[kPolicyNameBytesMax + 1] = {};
};

// vgpud -> worker: a guest for it. Descriptors: the guest's connection, the board of turns, the
// bell to ring. The Hello's bytes follow.
struct WorkerAssign {
  uint64_t magic = kWorkerMagic;
  uint64_t session = 0;
  WorkerGrants grants;
  scheduler::Share share;
  int32_t guest_pid = 0;
  uint32_t guest_uid = 0;  // whose guest it is: sessions of one user may share memory
  GuestRecord record;
};

// worker -> a restarted vgpud that knocked at its door. Descriptor: the page of WorkerPage.
struct WorkerAdopt {
  uint64_t magic = kWorkerMagic;
  uint64_t session = 0;
  WorkerGrants grants;
  uint64_t uptime_ms = 0;
  scheduler::Share share;
  int32_t guest_pid = 0;
  uint32_t guest_uid = 0;
  char executable[128] = {};
  char label[64] = {};
  char remote[64] = {};  // where a remote guest is
  GuestRecord record;
};

enum class PeerMessageKind : uint32_t {
  kAsk = 1,  // worker -> vgpud: a connection to the worker of `session`
  kAnswer,   // back: with a descriptor when there is one of the same user
  kCall,     // vgpud -> the worker of `session`. Descriptor: the other end
  kOrder,    // vgpud -> worker: WorkerOrder
  kObeyed,   // back: WorkerObeyed
  kBoard,  // vgpud -> a worker that it has adopted. Descriptors: board and bell, as in WorkerAssign
  kLeave,  // worker -> vgpud: end me; `request` is the exit code that I would have had
  kEnd,    // vgpud -> a session of a packed worker: its guest's end
  kBroken,  // packed worker -> vgpud: a context is broken; nobody new may come
};

// Between vgpud and workers that serve. The secret is for the worker that is called.
struct PeerMessage {
  uint64_t magic = kWorkerMagic;
  PeerMessageKind kind = PeerMessageKind::kAsk;
  uint32_t reserved = 0;
  uint64_t request = 0;  // of the asking worker's choice
  uint64_t session = 0;
  uint64_t secret_low = 0, secret_high = 0;
};

// What a guest may have from now on. Less memory than it uses takes nothing away: it gets no more.
struct WorkerOrder {
  uint64_t magic = kWorkerMagic;
  PeerMessageKind kind = PeerMessageKind::kOrder;
  uint32_t number = 0;  // of vgpud's choice
  WorkerGrants grants;
  scheduler::Share share;
  GuestAsk set;  // for the next vgpud, as in GuestRecord
};

// The order holds now. What the worker had of each device at that moment can only fall where it is
// more than the grant.
struct WorkerObeyed {
  uint64_t magic = kWorkerMagic;
  PeerMessageKind kind = PeerMessageKind::kObeyed;
  uint32_t number = 0;
  uint64_t used_bytes[protocol::kDevicesMax] = {};
};

// How long pieces of work waited for their turn: up to each of these, and longer.
inline constexpr uint64_t kWaitBoundsNs[] = {100'000,     1'000'000,     10'000'000,
                                             100'000'000, 1'000'000'000, 10'000'000'000};
inline constexpr size_t kWaitBuckets = std::size(kWaitBoundsNs) + 1;

// Shared page: the worker writes, vgpud reads. Figures for people, relaxed; nothing is decided by
// them, since the worker is as untrusted as its guest.
struct WorkerPage {
  std::atomic<uint64_t> used_bytes[protocol::kDevicesMax];  // in the guest's order of devices
  std::atomic<uint64_t> kernels;                            // launched; those of graphs singly
  std::atomic<uint64_t> copied_bytes[2];                    // to the device, from it
  std::atomic<uint64_t> refused_allocations;                // over the quota
  std::atomic<uint64_t> device_ns[scheduler::kEngines];     // device time used
  std::atomic<uint64_t> wait_ns;                            // that work waited for its turn
  std::atomic<uint64_t> throttled_ns;                       // of these: held back by the cap
  std::atomic<uint64_t> waits[kWaitBuckets];                // pieces that waited, by how long
  // What turns are given by: nothing but the worker's own share hangs on it. By the guest's
  // devices.
  TurnSlot turns[protocol::kDevicesMax][scheduler::kEngines];
};
inline constexpr size_t kWorkerPageBytes = 8192;
static_assert(sizeof(WorkerPage) <= kWorkerPageBytes);

// The page that came with a worker's message: the only descriptor, sealed and large enough.
Result<Mapping> map_worker_page(const std::vector<UniqueFd>& descriptors);

enum class DriverKind : int32_t { kSoft = 0, kNvidia = 1, kOther = 2 };
const char* driver_kind_name(DriverKind kind);

template <typename T>
std::span<const uint8_t> bytes_of(const T& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  return {reinterpret_cast<const uint8_t*>(&value), sizeof(T)};
}

// Copies the struct at the front of a frame; false when it is too short or of another version.
template <typename T>
bool read_front(std::span<const uint8_t> frame, T* value) {
  if (frame.size() < sizeof(T)) return false;
  std::memcpy(static_cast<void*>(value), frame.data(), sizeof(T));
  return value->magic == kWorkerMagic;
}

// Copies text into a fixed field, cut to fit.
template <size_t kBytes>
void set_text(char (&field)[kBytes], const std::string& text) {
  std::strncpy(field, text.c_str(), kBytes - 1);
  field[kBytes - 1] = '\0';
}

// Text of a fixed field that a peer filled.
template <size_t kBytes>
std::string get_text(const char (&field)[kBytes]) {
  return std::string(field, strnlen(field, kBytes));
}

}  // namespace vgpu::server

#endif  // VGPU_SERVER_WORKER_LINK_H_
