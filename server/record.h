// One command as the handlers see it: already in private memory, sizes checked.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SERVER_RECORD_H_
#define VGPU_SERVER_RECORD_H_

#include "protocol/ring/record.h"
#include "protocol/wire/decoder.h"

namespace vgpu::server {

// Borrows the consumer's private copy: valid until its next peek.
class Record {
 public:
  explicit Record(const protocol::Record& record) : record_(record) {}

  uint16_t op() const { return record_.header.op; }
  uint32_t reply() const { return record_.header.reply; }
  uint64_t sequence() const { return record_.sequence; }

  // Fills *args; blob() is what stands behind them. False = malformed.
  template <typename T>
  bool read(T* args) const {
    return protocol::decode(record_, args, &blob_);
  }
  const protocol::Blob& blob() const { return blob_; }

 private:
  const protocol::Record& record_;
  mutable protocol::Blob blob_;
};

}  // namespace vgpu::server

#endif  // VGPU_SERVER_RECORD_H_
