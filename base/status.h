// What our own functions report: Status (done, or why not) and Result<T> (a value, or why not).
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_BASE_STATUS_H_
#define VGPU_BASE_STATUS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace vgpu {

// Kinds of failure that a caller may want to tell apart. A CUresult is data and never becomes one.
enum class StatusCode : uint8_t {
  kOk = 0,
  kInvalidArgument,    // the caller asked for something that makes no sense
  kMalformed,          // bytes from a peer break the protocol; its session ends
  kMismatch,           // the peer speaks another version or another wire
  kNotFound,           // no such thing, file or server
  kAlreadyExists,      // the name is taken
  kPermissionDenied,   // the peer or the system refuses
  kRefused,            // the server answered and said no
  kResourceExhausted,  // a named limit was reached
  kUnavailable,        // the peer is gone, or not there
  kTimedOut,           // a bounded wait ended
  kNotSupported,       // known, but not served
  kSystem,             // a system call failed; os_error() says how
  kInternal,           // a bug of ours
};

// Name of a code as written in logs. Never null.
const char* status_code_name(StatusCode code);

// Success, or one code and one line of text for a person. Movable, copyable, not thread-safe.
// The ok path allocates nothing (an empty std::string has no memory of its own).
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(StatusCode code, std::string text, int os_error = 0)
      : code_(code), os_error_(os_error), text_(std::move(text)) {}

  // The failure of system call `what` with errno value `error`.
  static Status from_errno(int error, const char* what);

  bool ok() const { return code_ == StatusCode::kOk; }
  StatusCode code() const { return code_; }
  int os_error() const { return os_error_; }
  const std::string& text() const { return text_; }

  // "CODE: text", for logs.
  std::string to_string() const;

 private:
  StatusCode code_ = StatusCode::kOk;
  int os_error_ = 0;
  std::string text_;
};

inline Status ok_status() { return Status(); }

// A value, or the Status that says why there is none. value() may be called only when ok().
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}          // NOLINT(google-explicit-constructor)
  Result(Status status) : status_(std::move(status)) {}  // NOLINT(google-explicit-constructor)

  bool ok() const { return value_.has_value(); }
  explicit operator bool() const { return ok(); }
  const Status& status() const { return status_; }
  T& value() & { return *value_; }
  const T& value() const& { return *value_; }
  T&& value() && { return std::move(*value_); }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }
  T& operator*() & { return *value_; }
  const T& operator*() const& { return *value_; }
  T&& operator*() && { return std::move(*value_); }

 private:
  std::optional<T> value_;
  Status status_;
};

}  // namespace vgpu

// Leaves the function with the Status of `expr` when that is a failure.
#define VGPU_RETURN_IF_ERROR(expr)                                  \
  do {                                                              \
    if (::vgpu::Status vgpu_status_ = (expr); !vgpu_status_.ok()) { \
      return vgpu_status_;                                          \
    }                                                               \
  } while (false)

#endif  // VGPU_BASE_STATUS_H_
