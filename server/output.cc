// Memory files as standard output and error, read from the front and given back behind.
// SPDX-License-Identifier: Apache-2.0
#include "server/output.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>

namespace vgpu::server {
namespace {

constexpr uint64_t kPageBytes = 4096;
constexpr uint64_t kFreeBytes = 64 * 1024;  // given back in steps of this

Result<UniqueFd> replace(int descriptor, const char* name) {
  // Appending: where a write goes does not hang on who else has the descriptor.
  UniqueFd made(memfd_create(name, MFD_CLOEXEC));
  if (!made.valid()) return Status::from_errno(errno, "memfd_create");
  if (fcntl(made.get(), F_SETFL, O_APPEND) != 0 || dup2(made.get(), descriptor) < 0)
    return Status::from_errno(errno, "standard output");
  return made;
}

}  // namespace

uint64_t Output::File::end() const {
  struct stat info {};
  return fstat(fd.get(), &info) == 0 ? static_cast<uint64_t>(info.st_size) : read;
}

void Output::File::pass(uint64_t position) {
  read = position;
  const uint64_t whole = read / kPageBytes * kPageBytes;
  if (whole - freed < kFreeBytes) return;
  (void)fallocate(fd.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(freed),
                  static_cast<off_t>(whole - freed));
  freed = whole;
}

Status Output::take_over() {
  std::fflush(stdout);
  std::fflush(stderr);
  for (int i = 0; i < 2; ++i) {
    Result<UniqueFd> made = replace(i + 1, i == 0 ? "vgpu-stdout" : "vgpu-stderr");
    if (!made.ok()) return made.status();
    files_[i].fd = std::move(made).value();
  }
  active_.store(true, std::memory_order_release);
  return ok_status();
}

void Output::publish() {
  if (!active_.load(std::memory_order_acquire)) return;
  std::fflush(stdout);
  std::lock_guard lock(mutex_);
  uint64_t all = 0;
  for (File& file : files_) {
    const uint64_t end = file.end();
    if (end - file.read > kOutputBytesMax) file.pass(end - kOutputBytesMax);
    all += end;
  }
  if (publish_) publish_(all);
}

size_t Output::fetch(bool error, std::span<std::byte> into) {
  if (!active_.load(std::memory_order_acquire)) return 0;
  std::lock_guard lock(mutex_);
  File& file = files_[error ? 1 : 0];
  const ssize_t got = pread(file.fd.get(), into.data(), into.size(), static_cast<off_t>(file.read));
  if (got <= 0) return 0;
  file.pass(file.read + static_cast<uint64_t>(got));
  return static_cast<size_t>(got);
}

uint64_t Output::passed() {
  std::lock_guard lock(mutex_);
  return files_[0].read + files_[1].read;
}

Output& process_output() {
  static Output* const output = new Output;
  return *output;
}

}  // namespace vgpu::server
