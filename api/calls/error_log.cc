// The log of failed calls.
// SPDX-License-Identifier: Apache-2.0
#include "api/calls/error_log.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <shared_mutex>

#include "api/cudart/error_text.h"
#include "base/env.h"

namespace vgpu::calls {
namespace {

constexpr std::string_view kLost = "[CUDA][W] older messages have been overwritten\n";
constexpr std::string_view kLeftOut = "[CUDA][W] there was no room here for older messages\n";
static_assert(std::max(kLost.size(), kLeftOut.size()) < ErrorLog::kNoteBytesMax);

thread_local bool t_telling = false;

// "[HH:MM:SS.mmm][thread]", in UTC: what the C library knows of time zones takes a lock.
int write_head(char* to, size_t bytes) {
  timespec now = {};
  ::clock_gettime(CLOCK_REALTIME, &now);
  const auto seconds = static_cast<int>(now.tv_sec % 86400);
  return std::snprintf(to, bytes, "[%02d:%02d:%02d.%03d][%ld][CUDA][E] ", seconds / 3600,
                       seconds / 60 % 60, seconds % 60, static_cast<int>(now.tv_nsec / 1000000),
                       ::syscall(SYS_gettid));
}

// A line that cannot be written is lost: there is nobody to tell. The file is opened for each line,
// since no descriptor of ours stays in an application.
void write_out(std::string_view target, const char* line, size_t bytes) {
  int file = target == "stdout" ? STDOUT_FILENO : STDERR_FILENO;
  const bool opens = target != "stdout" && target != "stderr";
  if (opens) {
    file = ::open(target.data(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY, 0600);
    if (file < 0) return;
  }
  while (::write(file, line, bytes) < 0 && errno == EINTR) {
  }
  if (opens) ::close(file);
}

}  // namespace

// --- messages

void ErrorLog::add(std::string_view text) {
  std::lock_guard lock(mutex_);
  Line& line = lines_[count_++ % kMessagesMax];
  line.bytes = static_cast<uint32_t>(std::min(text.size(), kLineBytesMax - 1));
  std::memcpy(line.text.data(), text.data(), line.bytes);
  line.text[line.bytes++] = '\n';
}

CUlogIterator ErrorLog::end() const {
  std::lock_guard lock(mutex_);
  return static_cast<CUlogIterator>(count_);
}

CUresult ErrorLog::dump(CUlogIterator* from, char* to, size_t* bytes) const {
  std::lock_guard lock(mutex_);
  const size_t room = *bytes;
  *bytes = 0;
  uint64_t wanted = count_;  // messages, from the newest back
  if (from != nullptr) wanted = static_cast<CUlogIterator>(count_) - *from;
  if (wanted > count_ || room == 0) return CUDA_ERROR_INVALID_VALUE;
  uint64_t first = count_ - std::min(wanted, uint64_t{kMessagesMax});
  std::string_view note = wanted > kMessagesMax ? kLost : std::string_view();
  size_t total = note.size();
  for (uint64_t i = first; i < count_; ++i) total += line(i).bytes;
  if (total >= room && first < count_) {
    total += kLeftOut.size() - note.size();
    note = kLeftOut;
    while (first < count_ && total >= room) total -= line(first++).bytes;
    if (first == count_) return CUDA_ERROR_INVALID_VALUE;
  }
  const auto put = [&](const char* text, size_t length) {
    std::memcpy(to + *bytes, text, length);
    *bytes += length;
  };
  put(note.data(), note.size());
  for (uint64_t i = first; i < count_; ++i) put(line(i).text.data(), line(i).bytes);
  to[*bytes] = '\0';
  if (from != nullptr) *from = static_cast<CUlogIterator>(count_);
  return CUDA_SUCCESS;
}

// --- callbacks

struct LogCallbacks::Callback {
  const CUlogsCallback function;
  void* const data;
  std::atomic<bool> removed{false};  // relaxed: `running` orders it where that matters
  std::shared_mutex running;         // shared while it is called
};

uint64_t LogCallbacks::add(CUlogsCallback function, void* data) {
  std::lock_guard lock(mutex_);
  auto callback = std::shared_ptr<Callback>(new Callback{function, data, {}, {}});
  const uint64_t id = map_.insert(callback);
  if (id != 0) in_order_.push_back(std::move(callback));
  return id;
}

bool LogCallbacks::remove(uint64_t id) {
  std::shared_ptr<Callback> callback;
  {
    std::lock_guard lock(mutex_);
    const std::shared_ptr<Callback>* const found = map_.find(id);
    if (found == nullptr) return false;
    callback = *found;
    map_.remove(id);
    std::erase(in_order_, callback);
  }
  callback->removed.store(true, std::memory_order_relaxed);
  if (!t_telling) std::unique_lock wait(callback->running);
  return true;
}

void LogCallbacks::tell(CUlogLevel level, std::string_view message) {
  if (t_telling) return;
  std::vector<std::shared_ptr<Callback>> all;
  {
    std::lock_guard lock(mutex_);
    all = in_order_;
  }
  t_telling = true;
  for (const auto& callback : all) {
    std::shared_lock running(callback->running);
    if (callback->removed.load(std::memory_order_relaxed)) continue;
    char text[ErrorLog::kLineBytesMax];  // its own: it is not const
    text[message.copy(text, sizeof(text) - 1)] = '\0';
    callback->function(callback->data, level, text, std::strlen(text));
  }
  t_telling = false;
}

// --- the process

namespace {
// Relaxed: written once, before there is anything to note.
std::atomic<bool> g_left_to_others{false};
}  // namespace

ErrorLogs& ErrorLogs::instance() {
  struct Owned {
    const pid_t process = ::getpid();
    ErrorLogs logs;
  };
  // acquire and release: what a thread has made, another uses.
  static std::atomic<Owned*> owned{nullptr};
  Owned* found = owned.load(std::memory_order_acquire);
  if (found != nullptr && found->process == ::getpid()) return found->logs;
  auto fresh = std::make_unique<Owned>();  // locks of the parent's may be held for ever
  if (owned.compare_exchange_strong(found, fresh.get(), std::memory_order_acq_rel))
    return fresh.release()->logs;
  return found->logs;
}

void leave_failures_to_others() { g_left_to_others.store(true, std::memory_order_relaxed); }

void note_failure(CUresult result, const char* function) {
  if (g_left_to_others.load(std::memory_order_relaxed)) return;
  const int saved_errno = errno;
  char line[ErrorLog::kLineBytesMax];
  const int head = write_head(line, sizeof(line));
  const cudart::ErrorText* const text = cudart::find_error(result);
  const int wanted = std::snprintf(line + head, sizeof(line) - static_cast<size_t>(head),
                                   "Returning %d (%s) from %s", result,
                                   text != nullptr ? text->name : "unknown", function);
  size_t used = std::min(static_cast<size_t>(head + wanted), sizeof(line) - 1);
  ErrorLogs& logs = ErrorLogs::instance();
  logs.messages.add({line, used});
  logs.callbacks.tell(CU_LOG_LEVEL_ERROR, std::string_view(line, used).substr(size_t(head)));
  line[used++] = '\n';
  if (const auto target = env_text("CUDA_LOG_FILE")) write_out(*target, line, used);
  errno = saved_errno;
}

}  // namespace vgpu::calls
