// Texts and vectors of FlatBuffers tables; private to protocol/session.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_PROTOCOL_SESSION_TABLES_H_
#define VGPU_PROTOCOL_SESSION_TABLES_H_

#include <algorithm>
#include <string>

#include "base/status.h"
#include "control_generated.h"

namespace vgpu::protocol {

inline Status malformed(const char* field) {
  return Status(StatusCode::kMalformed, std::string("control message: bad ") + field);
}

// A text from a peer, fit for logs. False when it is longer than it may be.
inline bool take_text(const flatbuffers::String* from, size_t bytes_max, std::string* to) {
  if (from == nullptr) return true;
  if (from->size() > bytes_max) return false;
  to->assign(from->c_str(), from->size());
  for (char& c : *to) {
    if (c < 0x20 || c > 0x7e) c = '?';
  }
  return true;
}

// A text for a peer, cut at its limit.
inline flatbuffers::Offset<flatbuffers::String> put_text(flatbuffers::FlatBufferBuilder& to,
                                                         const std::string& from,
                                                         size_t bytes_max) {
  return to.CreateString(from.data(), std::min(from.size(), bytes_max));
}

template <typename Vector>
size_t size_of(const Vector* vector) {
  return vector == nullptr ? 0 : vector->size();
}

// The verifier checks where a vector begins (4 bytes), not where its first 8-byte element lies.
template <typename Vector>
bool aligned(const Vector* vector) {
  return size_of(vector) == 0 ||
         reinterpret_cast<uintptr_t>(vector->Data()) % sizeof(uint64_t) == 0;
}

}  // namespace vgpu::protocol

#endif  // VGPU_PROTOCOL_SESSION_TABLES_H_
