// Connections over libfabric: one endpoint of type MSG each, with RMA writes and messages.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_NET_FABRIC_FABRIC_H_
#define VGPU_NET_FABRIC_FABRIC_H_

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>

#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "net/fabric/fabric_limits.h"
#include "net/fabric/link.h"
#include "net/fabric/messages.h"

namespace vgpu::net {

using Secret = std::array<uint8_t, kSecretBytes>;

// Owner of one object of libfabric.
struct FidCloser {
  template <typename T>
  void operator()(T* object) const {
    if (object != nullptr) (void)fi_close(&object->fid);
  }
};
template <typename T>
using Fid = std::unique_ptr<T, FidCloser>;

struct InfoFree {
  void operator()(fi_info* info) const { fi_freeinfo(info); }
};
using Info = std::unique_ptr<fi_info, InfoFree>;

// What the provider is asked for, and what came back decides how it is used: no code asks which
// provider it is.
//   remote addresses   virtual when mr_mode has VIRT_ADDR, else offsets
//   keys               those that fi_mr_key names (PROV_KEY: the provider's choice)
//   local memory       registered when mr_mode has LOCAL
//   order              writes before later writes and messages (WAW, SAW, SAS): required
//   delivery           never asked for: what the peer says back is the proof
struct Provider {
  std::string name = "tcp";
};

// The memory of one end.
struct EndMemory {
  std::span<std::byte> all;     // that writes read from
  std::span<std::byte> window;  // a part of it, where the peer may write
};

// What one end says of itself: which connection of the session this is, and how far it has come.
struct Introduction {
  Secret secret{};
  uint32_t epoch = 1;
  Positions positions{};
};

// One end of a connection. Not thread-safe.
class FabricLink final : public Link {
 public:
  // Guest: connects to `address` ("host:port"), shows the secret, and exchanges windows. Gives up
  // when *stop becomes true (null: never).
  static Result<std::unique_ptr<FabricLink>> connect(const Provider& provider,
                                                     const std::string& address,
                                                     const Introduction& self,
                                                     const EndMemory& memory, int timeout_ms,
                                                     const std::atomic<bool>* stop = nullptr);
  ~FabricLink() override;

  Sent write(std::span<const std::byte> from, uint64_t offset, uint64_t token) override;
  bool reaches(std::span<const std::byte> memory) const override;
  Sent send(std::span<const std::byte> message) override;
  int poll(LinkSink* sink) override;
  bool may_sleep() override;
  int completion_fd() const override { return completion_fd_; }
  int event_fd() const override { return event_fd_; }
  uint64_t window_bytes() const override { return peer_bytes_; }
  bool intact() const override;
  const Positions& peer_positions() const { return peer_positions_; }
  void shut_down() override;

  // Sends what is on its way, for at most so long.
  void drain(int64_t ns_max);
  // The socket below, where there is one: the child of a fork must close its copy. -1: none found.
  int socket_fd() const { return socket_fd_; }
  // A path that says nothing counts as cut after kPathSilentMs, where there is such a socket.
  void mind_path();

 private:
  friend class FabricListener;
  static constexpr size_t kBatch = 16;
  static constexpr uint32_t kEventsEvery = 256;  // empty polls
  static constexpr uint32_t kOps = 128;          // writes and messages on their way
  enum class Op : uint8_t { kWrite, kSend, kReceive };
  struct Context {
    fi_context2 reserved;  // the provider's while the operation runs
    Op op = Op::kWrite;
    uint32_t index = 0;
    uint64_t token = 0;
  };

  FabricLink() = default;
  Status open(fi_info* info, fid_fabric* fabric, fid_eq* events, const EndMemory& memory);
  Status register_memory(const fi_info& info, const EndMemory& memory);
  Status wait_connected(fid_eq* events, int timeout_ms, const std::atomic<bool>* stop);
  Status exchange_windows(const Introduction& self, int timeout_ms);
  void find_socket();
  void remember_descriptors();
  bool post_receive(Context* context);
  Context* take(Op op);
  Sent took(Context* context, ssize_t result);
  bool finish(const fi_cq_data_entry& entry, LinkSink* sink);
  bool events_say_gone();
  std::span<std::byte> send_buffer(uint32_t index) {
    return {arena_.get() + size_t{index} * kMessageBytesMax, kMessageBytesMax};
  }
  std::span<std::byte> receive_buffer(uint32_t index) {
    return {arena_.get() + (kOps + size_t{index}) * kMessageBytesMax, kMessageBytesMax};
  }

  // In the order in which they must be made; they end in the opposite one.
  Fid<fid_fabric> own_fabric_;
  Fid<fid_eq> events_;
  Fid<fid_domain> domain_;
  Fid<fid_cq> completions_;
  std::unique_ptr<std::byte[]> arena_;
  Fid<fid_mr> window_, local_, messages_;
  Fid<fid_ep> endpoint_;

  fid_fabric* fabric_ = nullptr;
  std::span<std::byte> window_memory_, local_memory_;
  bool needs_registration_ = false;
  bool virtual_addresses_ = false;
  uint64_t inject_bytes_max_ = 0;
  uint64_t peer_address_ = 0, peer_key_ = 0, peer_bytes_ = 0;
  Positions peer_positions_{};
  int completion_fd_ = -1, event_fd_ = -1, socket_fd_ = -1;
  std::array<ino_t, 3> inodes_{};  // of these
  bool gone_ = false;
  uint32_t empty_polls_ = 0;
  size_t batch_ = 1;  // completions looked at at a time; one while windows are exchanged
  std::vector<Context> operations_, receives_;
  std::vector<Context*> free_;
};

// Gate: waits for the one connection that shows the secret.
class FabricListener {
 public:
  // Listens at `host`, on any port.
  static Result<std::unique_ptr<FabricListener>> open(const Provider& provider,
                                                      const std::string& host);
  // "host:port", as connect() wants it. A host that means any address is for the guest to replace.
  const std::string& address() const { return address_; }
  // Accepts the connection that knows the secret; others are rejected and do not end the wait.
  // `cancel_fd` readable or hung up ends it too (-1: none). Once.
  Result<std::unique_ptr<FabricLink>> accept(const Introduction& self, const EndMemory& memory,
                                             int timeout_ms, int cancel_fd);
  // It still waits: nobody with the secret has come.
  bool waits() const { return endpoint_ != nullptr; }

 private:
  FabricListener() = default;
  Result<std::unique_ptr<FabricLink>> take(fi_info* info, const Introduction& self,
                                           const EndMemory& memory, int ready_ms);

  Info info_;
  Fid<fid_fabric> fabric_;
  Fid<fid_eq> events_;
  Fid<fid_pep> endpoint_;
  std::string address_;
};

}  // namespace vgpu::net

#endif  // VGPU_NET_FABRIC_FABRIC_H_
