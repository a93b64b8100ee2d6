// The length rule of records.
// SPDX-License-Identifier: Apache-2.0
#include "protocol/wire/decoder.h"

namespace vgpu::protocol {

bool record_size_ok(const Record& record, size_t args_bytes) {
  const uint64_t used = sizeof(RecordHeader) + uint64_t{args_bytes} + record.header.blob_bytes;
  return used <= kRecordBytesMax && round_up_to_record(used) == record.header.bytes &&
         record.body.size() == record.header.bytes - sizeof(RecordHeader);
}

}  // namespace vgpu::protocol
