// Text of Status.
// SPDX-License-Identifier: Apache-2.0
#include "base/status.h"

#include <cstring>

namespace vgpu {

const char* status_code_name(StatusCode code) {
  switch (code) {
    case StatusCode::kOk:
      return "ok";
    case StatusCode::kInvalidArgument:
      return "invalid argument";
    case StatusCode::kMalformed:
      return "malformed";
    case StatusCode::kMismatch:
      return "mismatch";
    case StatusCode::kNotFound:
      return "not found";
    case StatusCode::kAlreadyExists:
      return "already exists";
    case StatusCode::kPermissionDenied:
      return "permission denied";
    case StatusCode::kRefused:
      return "refused";
    case StatusCode::kResourceExhausted:
      return "resource exhausted";
    case StatusCode::kUnavailable:
      return "unavailable";
    case StatusCode::kTimedOut:
      return "timed out";
    case StatusCode::kNotSupported:
      return "not supported";
    case StatusCode::kSystem:
      return "system error";
    case StatusCode::kInternal:
      return "internal error";
  }
  return "unknown";
}

Status Status::from_errno(int error, const char* what) {
  // strerrordesc_np is a table lookup: thread-safe, and without the locale that strerror loads.
  const char* description = strerrordesc_np(error);
  std::string text(what);
  text += ": ";
  text += description != nullptr ? description : "unknown error";
  return Status(StatusCode::kSystem, std::move(text), error);
}

std::string Status::to_string() const {
  std::string line(status_code_name(code_));
  if (!text_.empty()) {
    line += ": ";
    line += text_;
  }
  return line;
}

}  // namespace vgpu
