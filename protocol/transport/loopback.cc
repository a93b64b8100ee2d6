// Transport loop: guest and worker in one process, for tests and the loop build.
// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/socket.h>

#include <cerrno>
#include <memory>

#include "base/mapping.h"
#include "protocol/transport/control_socket.h"
#include "protocol/transport/descriptor.h"
#include "protocol/transport/transport.h"

namespace vgpu::protocol {
namespace {

class Loopback final : public Transport {
 public:
  Loopback(std::shared_ptr<Mapping> memory, const ChannelSizes& sizes, UniqueFd socket)
      : memory_(std::move(memory)), sizes_(sizes), socket_(std::move(socket)) {}

  std::span<std::byte> memory() const override { return memory_->bytes(); }
  const ChannelSizes& sizes() const override { return sizes_; }
  // The peer's end of the pair closes when it is destroyed, as a process's would.
  int liveness_fd() const override { return socket_.get(); }
  bool same_address_space() const override { return true; }
  Status send_descriptor(int fd, uint64_t tag) override {
    return send_tagged_descriptor(socket_.get(), fd, tag);
  }
  Result<std::pair<UniqueFd, uint64_t>> receive_descriptor(int timeout_ms) override {
    return receive_tagged_descriptor(socket_.get(), timeout_ms);
  }

 private:
  std::shared_ptr<Mapping> memory_;
  ChannelSizes sizes_;
  UniqueFd socket_;
};

}  // namespace

Result<LoopPair> make_loop(const ChannelSizes& sizes) {
  VGPU_RETURN_IF_ERROR(sizes.check());
  Result<Mapping> memory = Mapping::map_private(sizes.total_bytes());
  if (!memory.ok()) return memory.status();
  int sockets[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) != 0) {
    return Status::from_errno(errno, "socketpair");
  }
  auto shared = std::make_shared<Mapping>(std::move(memory).value());
  LoopPair pair;
  pair.guest = std::make_unique<Loopback>(shared, sizes, UniqueFd(sockets[0]));
  pair.worker = std::make_unique<Loopback>(shared, sizes, UniqueFd(sockets[1]));
  return pair;
}

}  // namespace vgpu::protocol
