// Files of compiled kernels: reading, writing, checking, and removing the old ones.
// SPDX-License-Identifier: Apache-2.0
#include "softgpu/jit/code_cache.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>

#include "base/cache_folder.h"
#include "base/env.h"
#include "base/log.h"
#include "softgpu/jit/code_file.h"

namespace vgpu::softgpu {
namespace {

constexpr uint64_t kBytesDefault = 256ull << 20;
constexpr uint64_t kFileBytesMax = 64ull << 20;
constexpr time_t kLeftoverSeconds = 3600;  // a temporary file this old has no writer any more
constexpr char kTemporary[] = "tmp-";

bool ours_alone(const struct stat& info) {
  return (info.st_uid == ::geteuid() || info.st_uid == 0) && (info.st_mode & 022) == 0;
}

// Root's servers have workers with users of their own, which shall read what root has compiled.
mode_t folder_mode() { return ::geteuid() == 0 ? 0755 : 0700; }
mode_t file_mode() { return ::geteuid() == 0 ? 0644 : 0600; }

// mkdir -p; written by this user alone.
void make_folders(const std::string& path) {
  for (size_t slash = path.find('/', 1);; slash = path.find('/', slash + 1)) {
    (void)::mkdir(path.substr(0, slash).c_str(), folder_mode());
    if (slash == std::string::npos) return;
  }
}

UniqueFd open_folder(const std::string& path) {
  if (path.empty()) return {};
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid() && errno == ENOENT) {
    make_folders(path);
    fd.reset(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  }
  struct stat info;
  if (!fd.valid() || ::fstat(fd.get(), &info) != 0) {
    VGPU_LOG_INFO("no cache of compiled kernels in %s: %s", path.c_str(), std::strerror(errno));
    return {};
  }
  if (ours_alone(info)) return fd;
  VGPU_LOG_WARN("no cache of compiled kernels in %s: others own it or may write there",
                path.c_str());
  return {};
}

bool read_all(int fd, size_t bytes, std::string* text) {
  text->resize(bytes);
  size_t done = 0;
  while (done < bytes) {
    const ssize_t got = ::read(fd, text->data() + done, bytes - done);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    done += static_cast<size_t>(got);
  }
  return true;
}

bool write_all(int fd, const std::string& text) {
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t put = ::write(fd, text.data() + done, text.size() - done);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return false;
    done += static_cast<size_t>(put);
  }
  return true;
}

}  // namespace

CodeCache& CodeCache::instance() {
  static CodeCache* const cache =
      new CodeCache(compiled_kernels_folder(), env_size("VGPU_SOFTGPU_CACHE_SIZE", kBytesDefault));
  return *cache;
}

CodeCache::CodeCache(const std::string& folder, uint64_t bytes_max)
    : folder_(open_folder(folder)), bytes_max_(bytes_max) {}

bool CodeCache::find(const std::string& key, ObjectCode* code) {
  if (!enabled()) return false;
  const UniqueFd fd(
      ::openat(folder_.get(), key.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat info;
  if (!fd.valid() || ::fstat(fd.get(), &info) != 0) return false;
  if (!S_ISREG(info.st_mode) || !ours_alone(info) || info.st_size < 0 ||
      static_cast<uint64_t>(info.st_size) > kFileBytesMax) {
    return false;
  }
  std::string text;
  if (!read_all(fd.get(), static_cast<size_t>(info.st_size), &text)) return false;
  if (!unpack_code(text, key, code)) {
    VGPU_LOG_INFO("compiled kernel %s in the cache is damaged: compiled again", key.c_str());
    return false;
  }
  // The time of last use decides what is removed first. A sandbox may forbid it.
  if (writable_.load(std::memory_order_relaxed) && ::futimens(fd.get(), nullptr) != 0)
    writable_.store(false, std::memory_order_relaxed);
  return true;
}

void CodeCache::store(const std::string& key, const ObjectCode& code) {
  if (!enabled() || !writable_.load(std::memory_order_relaxed)) return;
  static std::atomic<uint64_t> counter{0};
  const std::string text = pack_code(key, code);
  if (text.size() > kFileBytesMax || text.size() > bytes_max_) return;
  const std::string name =
      kTemporary + std::to_string(::getpid()) + "-" + std::to_string(counter.fetch_add(1));
  UniqueFd fd(::openat(folder_.get(), name.c_str(),
                       O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, file_mode()));
  if (!fd.valid()) {
    if (errno == EEXIST) return;  // left by a process of that number: trim() removes it some day
    writable_.store(false, std::memory_order_relaxed);
    VGPU_LOG_INFO("the cache of compiled kernels cannot be written: %s", std::strerror(errno));
    return;
  }
  if (!write_all(fd.get(), text) ||
      ::renameat(folder_.get(), name.c_str(), folder_.get(), key.c_str()) != 0) {
    (void)::unlinkat(folder_.get(), name.c_str(), 0);
    return;
  }
  const uint64_t before = written_.fetch_add(text.size(), std::memory_order_relaxed);
  if (before == 0 || before + text.size() > bytes_max_ / 16) trim();
}

// Removes what nobody has used for longest until three quarters of the room are taken.
void CodeCache::trim() {
  written_.store(1, std::memory_order_relaxed);
  struct File {
    std::string name;
    uint64_t bytes;
    timespec used;
  };
  std::vector<File> files;
  const int copy = ::openat(folder_.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR* const listing = copy < 0 ? nullptr : ::fdopendir(copy);
  if (listing == nullptr) return;
  uint64_t total = 0;
  while (const dirent* const entry = ::readdir(listing)) {
    struct stat info;
    if (::fstatat(folder_.get(), entry->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0) continue;
    if (!S_ISREG(info.st_mode)) continue;
    const std::string name = entry->d_name;
    if (name.starts_with(kTemporary)) {
      if (info.st_mtime + kLeftoverSeconds < ::time(nullptr))
        (void)::unlinkat(folder_.get(), name.c_str(), 0);
      continue;
    }
    if (!is_code_name(name)) continue;  // not ours: not counted, never removed
    files.push_back({name, static_cast<uint64_t>(info.st_size), info.st_mtim});
    total += files.back().bytes;
  }
  ::closedir(listing);
  if (total <= bytes_max_) return;
  std::sort(files.begin(), files.end(), [](const File& a, const File& b) {
    return a.used.tv_sec != b.used.tv_sec ? a.used.tv_sec < b.used.tv_sec
                                          : a.used.tv_nsec < b.used.tv_nsec;
  });
  for (const File& file : files) {
    if (total <= bytes_max_ / 4 * 3) return;
    if (::unlinkat(folder_.get(), file.name.c_str(), 0) == 0) total -= file.bytes;
  }
}

}  // namespace vgpu::softgpu
