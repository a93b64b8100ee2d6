// What a program may read of its failed calls: the newest messages, and whom to tell.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "base/slot_map.h"

namespace vgpu::calls {

// The newest messages of this process, oldest first. Thread-safe; allocates nothing.
class ErrorLog {
 public:
  static constexpr size_t kMessagesMax = 100;     // at the limit the oldest makes room
  static constexpr size_t kDumpBytesMax = 25600;  // of a dump with its NUL, as cuda.h says
  static constexpr size_t kNoteBytesMax = 100;    // of the line about what is not there
  static constexpr size_t kLineBytesMax = (kDumpBytesMax - kNoteBytesMax) / kMessagesMax;

  // One line, without its newline; what is longer is cut.
  void add(std::string_view line);
  // Where the next message will be: counts messages, modulo 2^32.
  CUlogIterator end() const;
  // Writes the messages from *from on (null: all), each with a newline, then a NUL. *bytes: the
  // room for that, then what was written without the NUL. What is no longer there, or does not fit,
  // is said in a line ahead; the newest message is always there. *from moves to the end.
  // INVALID_VALUE: *from is beyond the end, or there is not room for any message; *bytes is 0.
  CUresult dump(CUlogIterator* from, char* to, size_t* bytes) const;

 private:
  struct Line {
    uint32_t bytes = 0;
    std::array<char, kLineBytesMax> text;
  };
  const Line& line(uint64_t number) const { return lines_[number % kMessagesMax]; }

  mutable std::mutex mutex_;
  std::array<Line, kMessagesMax> lines_;
  uint64_t count_ = 0;  // of all messages ever
};

// Who is told of each message. A callback that fails a call itself is not told of that.
class LogCallbacks {
 public:
  static constexpr uint64_t kTag = 101;  // like no handle of either library

  // 0: there is no memory.
  uint64_t add(CUlogsCallback function, void* data);
  // When it returns the callback is not running and never will, unless it is the caller.
  bool remove(uint64_t id);
  void tell(CUlogLevel level, std::string_view message);

 private:
  struct Callback;
  std::mutex mutex_;
  SlotMap<std::shared_ptr<Callback>, kTag> map_;
  std::vector<std::shared_ptr<Callback>> in_order_;
};

// Both, of this process: a forked child begins anew. Lasts as long as the process, since calls come
// while it ends.
struct ErrorLogs {
  static ErrorLogs& instance();

  ErrorLog messages;
  LogCallbacks callbacks;
};

// Notes that `function` has returned an error: in the log, to whoever wants to be told, and where
// CUDA_LOG_FILE (stdout, stderr or a path) says. Keeps errno.
void note_failure(CUresult result, const char* function);

// From now on note_failure does nothing: whoever calls this library notes its failures.
void leave_failures_to_others();

// The result of an exported function on its way out.
inline CUresult noted(CUresult result, const char* function) {
  if (result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_READY) [[unlikely]]
    note_failure(result, function);
  return result;
}

}  // namespace vgpu::calls
