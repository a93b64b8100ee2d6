// Memory files as standard output and error, read from the front and given back behind.
// SPDX-License-Identifier: Apache-2.0
#include "server/output.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>

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

int spill_descriptor = -1;  // set once, before other threads exist

void spill_all() { process_output().spill(spill_descriptor); }

}  // namespace

uint64_t Output::File::end() const {
  struct stat info {};
  return fstat(fd.get(), &info) == 0 ? static_cast<uint64_t>(info.st_size) : read.load();
}

void Output::File::pass(uint64_t position) {
  read = position;
  const uint64_t whole = position / kPageBytes * kPageBytes;
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

// The guest's kernels may have written it, so nothing in it may steer a terminal.
void Output::spill(int descriptor) const {
  constexpr char kFront[] = "vgpu-worker ends; on its standard error stood:\n";
  const File& file = files_[1];
  const uint64_t end = file.end(), begin = file.read;
  if (!active_.load(std::memory_order_acquire) || end <= begin) return;
  char text[kSpillBytesMax + 1];
  const uint64_t from = end - std::min<uint64_t>(end - begin, kSpillBytesMax);
  const ssize_t got = pread(file.fd.get(), text, kSpillBytesMax, static_cast<off_t>(from));
  if (got <= 0) return;
  for (ssize_t i = 0; i < got; ++i) {
    if (text[i] != '\n' && (text[i] < ' ' || text[i] > '~')) text[i] = '?';
  }
  text[got] = '\n';
  const ssize_t length = text[got - 1] == '\n' ? got : got + 1;
  // Whoever reads it or does not: the process ends.
  const ssize_t written[] = {write(descriptor, kFront, sizeof(kFront) - 1),
                             write(descriptor, text, static_cast<size_t>(length))};
  (void)written;
}

void spill_output_at_death(int descriptor) {
  spill_descriptor = descriptor;
  (void)process_output();  // made now: a handler may not
  struct sigaction action = {};
  action.sa_handler = [](int) { spill_all(); };  // abort() goes on behind it
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  (void)sigaction(SIGABRT, &action, nullptr);
  (void)std::atexit(spill_all);
}

Status drop_output() {
  const UniqueFd nowhere(open("/dev/null", O_WRONLY | O_CLOEXEC));
  if (!nowhere.valid() || dup2(nowhere.get(), STDOUT_FILENO) < 0 ||
      dup2(nowhere.get(), STDERR_FILENO) < 0) {
    return Status::from_errno(errno, "standard output");
  }
  return ok_status();
}

Output& process_output() {
  static Output* const output = new Output;
  return *output;
}

}  // namespace vgpu::server
