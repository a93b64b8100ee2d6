// Transport shm: one sealed memfd that both processes map, and the unix socket it travelled over.
// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/mapping.h"
#include "protocol/transport/descriptor.h"
#include "protocol/transport/transport.h"

namespace vgpu::protocol {
namespace {

class SharedMemory final : public Transport {
 public:
  SharedMemory(UniqueFd connection, Mapping memory, const ChannelSizes& sizes)
      : connection_(std::move(connection)), memory_(std::move(memory)), sizes_(sizes) {}

  std::span<std::byte> memory() const override { return memory_.bytes(); }
  const ChannelSizes& sizes() const override { return sizes_; }
  int liveness_fd() const override { return connection_.get(); }
  bool same_address_space() const override { return false; }
  Status send_descriptor(int fd, uint64_t tag) override {
    return send_tagged_descriptor(connection_.get(), fd, tag);
  }
  Result<std::pair<UniqueFd, uint64_t>> receive_descriptor(int timeout_ms) override {
    return receive_tagged_descriptor(connection_.get(), timeout_ms);
  }

 private:
  UniqueFd connection_;
  Mapping memory_;
  ChannelSizes sizes_;
};

}  // namespace

Result<UniqueFd> make_sealed_memory(uint64_t bytes, const char* name) {
  UniqueFd fd(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid()) return Status::from_errno(errno, "memfd_create");
  int done = 0;
  do {
    done = ::ftruncate(fd.get(), static_cast<off_t>(bytes));
  } while (done != 0 && errno == EINTR);
  if (done != 0) return Status::from_errno(errno, "ftruncate");
  if (::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return Status::from_errno(errno, "F_ADD_SEALS");
  }
  return fd;
}

Status check_sealed_memory(int fd, uint64_t bytes) {
  const int seals = ::fcntl(fd, F_GET_SEALS);
  if (seals < 0) return Status(StatusCode::kMalformed, "descriptor is not a memfd", errno);
  if ((seals & F_SEAL_SHRINK) == 0) {
    return Status(StatusCode::kMalformed, "memory is not sealed against shrinking");
  }
  struct stat info {};
  if (::fstat(fd, &info) != 0) return Status::from_errno(errno, "fstat");
  if (info.st_size < 0 || static_cast<uint64_t>(info.st_size) < bytes) {
    return Status(StatusCode::kMalformed, "memory is smaller than promised");
  }
  return ok_status();
}

Result<std::unique_ptr<Transport>> make_shm(Role role, UniqueFd connection, int memory_fd,
                                            const ChannelSizes& sizes) {
  VGPU_RETURN_IF_ERROR(sizes.check());
  VGPU_RETURN_IF_ERROR(check_sealed_memory(memory_fd, sizes.total_bytes()));
  Result<Mapping> memory = Mapping::map_shared(memory_fd, sizes.total_bytes());
  if (!memory.ok()) return memory.status();
  // A forked child must not scribble on the channel of its parent.
  if (role == Role::kGuest && ::madvise(memory->data(), memory->size(), MADV_DONTFORK) != 0) {
    return Status::from_errno(errno, "MADV_DONTFORK");
  }
  return std::unique_ptr<Transport>(
      std::make_unique<SharedMemory>(std::move(connection), std::move(memory).value(), sizes));
}

}  // namespace vgpu::protocol
