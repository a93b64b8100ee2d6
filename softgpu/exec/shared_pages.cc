// Memory files with a page behind the data that tells them from others.
// SPDX-License-Identifier: Apache-2.0
#include "softgpu/exec/shared_pages.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <mutex>

#include "softgpu/exec/faults.h"

namespace vgpu::softgpu {
namespace {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kMagic = 0x5350'5550'4756'0001;
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

struct Trailer {
  uint64_t magic = kMagic;
  uint64_t bytes = 0;
  PagesSecret secret;
  int64_t identity = 0;
};

bool write_all(int file, uint64_t from, uint64_t bytes, uint64_t offset) {
  while (bytes != 0) {
    const ssize_t written =
        ::pwrite(file, reinterpret_cast<const void*>(from), bytes, static_cast<off_t>(offset));
    if (written <= 0) return false;
    from += static_cast<uint64_t>(written);
    offset += static_cast<uint64_t>(written);
    bytes -= static_cast<uint64_t>(written);
  }
  return true;
}

}  // namespace

Result<UniqueFd> make_shared_pages(uint64_t bytes, PagesSecret* secret, int identity) {
  UniqueFd file(::memfd_create("vgpu-shared-device-memory", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file.valid()) return Status::from_errno(errno, "memfd_create");
  Trailer trailer;
  trailer.bytes = bytes;
  trailer.identity = identity;
  if (::getrandom(&trailer.secret, sizeof(trailer.secret), 0) != sizeof(trailer.secret))
    return Status::from_errno(errno, "getrandom");
  if (secret != nullptr) *secret = trailer.secret;
  if (::ftruncate(file.get(), static_cast<off_t>(bytes + kPage)) != 0 ||
      !write_all(file.get(), reinterpret_cast<uint64_t>(&trailer), sizeof(trailer), bytes) ||
      ::fcntl(file.get(), F_ADD_SEALS, kSeals) != 0) {
    return Status::from_errno(errno, "a file of device memory");
  }
  return file;
}

uint64_t shared_pages_bytes(int file, PagesSecret* secret, int* identity) {
  const int seals = ::fcntl(file, F_GET_SEALS);
  struct stat status {};
  if (seals < 0 || (seals & kSeals) != kSeals || ::fstat(file, &status) != 0) return 0;
  const auto size = static_cast<uint64_t>(status.st_size);
  if (size <= kPage) return 0;
  Trailer trailer;
  if (::pread(file, &trailer, sizeof(trailer), static_cast<off_t>(size - kPage)) !=
      static_cast<ssize_t>(sizeof(trailer))) {
    return 0;
  }
  if (secret != nullptr) *secret = trailer.secret;
  if (identity != nullptr) *identity = static_cast<int>(trailer.identity);
  return trailer.magic == kMagic && trailer.bytes == size - kPage ? trailer.bytes : 0;
}

bool move_to_shared_pages(int file, uint64_t source, uint64_t bytes,
                          std::span<const MovedMapping> mappings) {
  static std::mutex one_at_a_time;
  std::lock_guard<std::mutex> lock(one_at_a_time);
  install_fault_handlers();
  hold_faults();
  const auto protect = [&](int mask) {
    for (const MovedMapping& each : mappings)
      ::mprotect(reinterpret_cast<void*>(each.address), bytes, each.protection & mask);
  };
  protect(PROT_READ);
  bool moved = write_all(file, source, bytes, 0);
  for (const MovedMapping& each : mappings) {
    // Replaces the pages at once; whoever reads meanwhile sees one or the other, which are alike.
    // As many mappings as before, so that no limit is in the way.
    moved = moved && ::mmap(reinterpret_cast<void*>(each.address), bytes, each.protection,
                            MAP_SHARED | MAP_FIXED, file, 0) != MAP_FAILED;
  }
  if (!moved) protect(PROT_READ | PROT_WRITE);
  resume_faults();
  return moved;
}

}  // namespace vgpu::softgpu
