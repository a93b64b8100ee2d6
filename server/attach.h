// Making devices ready for one guest, and answering the guest's hello. Used by the worker and by
// loop. SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SERVER_ATTACH_H_
#define VGPU_SERVER_ATTACH_H_

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <vector>

#include "driver_table.h"
#include "protocol/session/messages.h"
#include "server/device_choice.h"

namespace vgpu::server {

// Where guest and worker claim device addresses, best first; see docs/memory.md.
inline constexpr uint64_t kDeviceRangeBases[] = {0x2000'0000'0000, 0x3800'0000'0000,
                                                 0x4000'0000'0000};
inline constexpr uint64_t kDeviceRangeBytes = uint64_t{8} << 40;

// One device of the driver's. Thread-safe once the guest's devices are chosen.
class Device {
 public:
  // What is known without a context. `driver` stays borrowed.
  static Result<std::unique_ptr<Device>> inspect(const DriverTable* driver, CUdevice number);

  // Its primary context, which is then current on this thread; makes it when there is none yet.
  CUresult open();
  // Gives the primary context back.
  void close();
  bool is_open() const { return primary() != nullptr; }

  CUdevice number() const { return number_; }  // the driver's
  // Null until it is open. acquire: partner is open().
  CUcontext primary() const { return primary_.load(std::memory_order_acquire); }
  // Held while work is given to its primary context by who has no other hold on it: close() waits.
  std::shared_mutex& lives() const { return lives_; }
  uint64_t memory_bytes() const { return memory_bytes_; }
  const std::string& name() const { return name_; }
  DeviceIdentity identity() const;
  // Whether guests can choose addresses of its memory.
  bool virtual_memory() const { return virtual_memory_; }
  // Whether other workers can be handed it.
  bool shares_memory() const { return shares_memory_; }
  // Name, identity, attributes and limits as a guest sees them that is granted grant_bytes. Some
  // context is current.
  protocol::DeviceSnapshot snapshot() const;
  // What protocol::PeerFact says of it and `other`. Access is a context's, so who shares that has
  // none.
  void add_peer_facts(const Device& other, bool shared_context, std::vector<int32_t>* facts) const;

  uint64_t grant_bytes = 0;  // of the guest

 private:
  Device(const DriverTable* driver, CUdevice number) : driver_(driver), number_(number) {}
  bool has_virtual_memory() const;
  bool can_share() const;

  const DriverTable* const driver_;
  const CUdevice number_;
  std::mutex mutex_;  // guards opening
  mutable std::shared_mutex lives_;
  std::atomic<CUcontext> primary_{nullptr};
  uint64_t memory_bytes_ = 0;
  std::string name_;
  bool virtual_memory_ = false;
  bool shares_memory_ = false;
};

// What a guest gets of one device: its place among the served ones, and bytes of its memory.
struct DeviceGrant {
  uint32_t device = 0;
  uint64_t bytes = 0;
};

// The devices that a process serves, or after grant() those of its guest. Not thread-safe; at()
// and what it gives is, once the guest's are chosen.
class Devices {
 public:
  // cuInit, and the devices that `list` names as CUDA_VISIBLE_DEVICES would; empty: all. The first
  // of them is open, its context current on this thread. `driver` stays borrowed.
  static Result<Devices> open(const DriverTable* driver, const std::string& list = "");

  size_t count() const { return devices_.size(); }
  // nullptr: there is none.
  Device* at(size_t index) const { return index < count() ? devices_[index].get() : nullptr; }
  Device& first() const { return *devices_[0]; }
  int driver_version() const { return driver_version_; }

  // Reserves device addresses ahead: the first candidate that the driver gives as asked.
  void reserve_ahead();
  // The same anywhere, for a guest in this very process, which need not hold the range too. No
  // bytes when the driver gives none.
  protocol::AddressRange reserve_here(uint64_t bytes);
  // Memory of all of them can be handed to other workers as descriptors.
  bool shares_memory() const;
  // The one with this UUID; -1: none of these.
  int find(const std::array<uint8_t, 16>& uuid) const;
  // From now on these are the devices of the one guest, in its order. The first of them is open.
  Status grant(const std::vector<DeviceGrant>& grants);
  // All of them, with so much memory on each.
  Status grant_all(uint64_t bytes);
  // The guest has one of `parts` pieces of every address range, as others of this process have
  // theirs.
  void set_part(uint32_t part, uint32_t parts) {
    part_ = part;
    parts_ = parts;
  }
  bool is_shared() const { return parts_ > 1; }
  protocol::AddressRange own_part(const protocol::AddressRange& range) const {
    return protocol::part_of(range, part_, parts_);
  }
  // Contexts and addresses go back to the driver: for a process that goes on.
  void give_back();
  // What the guest gets: an address range that both hold, or another way to allocate.
  void choose_range(const protocol::Hello& hello, protocol::HelloReply* reply);

 private:
  bool reserve(const protocol::AddressRange& range);
  void drop_reservation();
  bool virtual_memory() const;

  const DriverTable* driver_ = nullptr;
  std::vector<std::unique_ptr<Device>> devices_;
  int driver_version_ = 0;
  protocol::AddressRange reserved_;
  uint32_t part_ = 0, parts_ = 1;
};

// The answer to a hello that has been checked, but for the channel's memory. What is granted has
// been said to `devices`.
protocol::HelloReply make_reply(Devices* devices, const protocol::Hello& hello, uint64_t session,
                                const std::string& driver_name);

// Claims a range for host memory that the guest holds too, so that the driver puts nothing there:
// behind the device range that was chosen, or behind any that the guest offers when none was, or
// the guest's part of that. Empty when all are taken: then the guest can map no host memory.
protocol::AddressRange claim_host_range(const Devices& devices, const protocol::Hello& hello,
                                        const protocol::AddressRange& device_range);
void give_back_host_range(const protocol::AddressRange& range);

// Whether descriptors pass between the guest and its worker, as the answer says.
bool passes_descriptors(const protocol::HelloReply& reply);

extern const char kServerVersion[];

}  // namespace vgpu::server

#endif  // VGPU_SERVER_ATTACH_H_
