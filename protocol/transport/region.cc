// Transport region: a piece of a larger memory that somebody else made and shares with a machine
// under another kernel, such as the BAR of an ivshmem device (docs/vm.md).
// SPDX-License-Identifier: Apache-2.0
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "base/mapping.h"
#include "protocol/transport/transport.h"

namespace vgpu::protocol {
namespace {

class Region final : public Transport {
 public:
  Region(UniqueFd connection, Mapping memory, const ChannelSizes& sizes, BellParts parts)
      : connection_(std::move(connection)),
        memory_(std::move(memory)),
        sizes_(sizes),
        parts_(std::move(parts)) {}

  std::span<std::byte> memory() const override { return memory_.bytes(); }
  const ChannelSizes& sizes() const override { return sizes_; }
  int liveness_fd() const override { return connection_.get(); }
  bool same_address_space() const override { return false; }
  Bell bell() const override { return parts_.bell; }
  Status send_descriptor(int, uint64_t) override { return no_descriptors(); }
  Result<std::pair<UniqueFd, uint64_t>> receive_descriptor(int) override {
    return no_descriptors();
  }

 private:
  static Status no_descriptors() {
    return Status(StatusCode::kNotSupported, "no descriptor reaches another kernel");
  }

  UniqueFd connection_;
  Mapping memory_;
  ChannelSizes sizes_;
  BellParts parts_;
};

// A guest does not fear the kernel that made its devices; but a file that ends earlier would kill
// the program.
Status check_length(int fd, uint64_t bytes) {
  struct stat info {};
  if (::fstat(fd, &info) != 0) return Status::from_errno(errno, "fstat");
  if (info.st_size < 0 || static_cast<uint64_t>(info.st_size) < bytes) {
    return Status(StatusCode::kMalformed, "the region is smaller than promised");
  }
  return ok_status();
}

}  // namespace

Result<std::unique_ptr<Transport>> make_region(Role role, UniqueFd connection, int region_fd,
                                               uint64_t offset, const ChannelSizes& sizes,
                                               BellParts parts) {
  VGPU_RETURN_IF_ERROR(sizes.check());
  const uint64_t bytes = sizes.total_bytes();
  if (offset % kPageBytes != 0 || offset > kRegionBytesMax || bytes > kRegionBytesMax - offset) {
    return Status(StatusCode::kMalformed, "a piece that no region has");
  }
  VGPU_RETURN_IF_ERROR(role == Role::kWorker ? check_sealed_memory(region_fd, offset + bytes)
                                             : check_length(region_fd, offset + bytes));
  Result<Mapping> memory = Mapping::map_shared(region_fd, bytes, offset);
  if (!memory.ok()) return memory.status();
  if (role == Role::kGuest && ::madvise(memory->data(), memory->size(), MADV_DONTFORK) != 0) {
    return Status::from_errno(errno, "MADV_DONTFORK");
  }
  // Whoever had the piece before has left something there.
  if (role == Role::kWorker) std::memset(memory->data(), 0, kRingOffset);
  return std::unique_ptr<Transport>(std::make_unique<Region>(
      std::move(connection), std::move(memory).value(), sizes, std::move(parts)));
}

}  // namespace vgpu::protocol
