// Putting messages together and taking them apart.
// SPDX-License-Identifier: Apache-2.0
#include "net/fabric/messages.h"

#include <algorithm>
#include <cstring>

namespace vgpu::net {
namespace {

Status malformed(const char* what) { return Status(StatusCode::kMalformed, what); }

}  // namespace

void MessageWriter::append(const void* data, size_t bytes) {
  const size_t rounded = round_up_8(bytes);
  if (rounded > room()) return;
  if (bytes != 0) std::memcpy(buffer_.data() + used_, data, bytes);
  std::memset(buffer_.data() + used_ + bytes, 0, rounded - bytes);
  used_ += rounded;
}

bool MessageReader::take(void* out, size_t bytes) {
  bool ok = true;
  const std::span<const std::byte> found = view(bytes, &ok);
  if (ok) std::memcpy(out, found.data(), bytes);
  return ok;
}

std::span<const std::byte> MessageReader::view(size_t bytes, bool* ok) {
  const size_t rounded = round_up_8(bytes);
  if (rounded < bytes || rounded > bytes_.size()) {
    *ok = false;
    return {};
  }
  const std::span<const std::byte> found = bytes_.first(bytes);
  bytes_ = bytes_.subspan(rounded);
  return found;
}

bool read_header(std::span<const std::byte> message, MessageHeader* header) {
  if (message.size() < sizeof(*header) || message.size() > kMessageBytesMax) return false;
  std::memcpy(header, message.data(), sizeof(*header));
  return header->bytes == message.size() && header->kind >= MessageKind::kWindow &&
         header->kind <= MessageKind::kAck;
}

Status read_update(std::span<const std::byte> message, const protocol::ChannelSizes& sizes,
                   Update* update) {
  MessageReader reader(message);
  UpdateHeader header;
  if (!reader.take(&header)) return malformed("update shorter than its header");
  if (header.expectations > protocol::kReplySlots) return malformed("too many expectations");
  if (header.inline_bytes > kInlineRingBytesMax) return malformed("too many inline records");
  if (header.tail % protocol::kRecordAlignBytes != 0) return malformed("tail not aligned");
  update->tail = header.tail;
  update->finished = header.finished;
  update->expectations.clear();
  for (uint32_t i = 0; i < header.expectations; ++i) {
    Expectation each;
    if (!reader.take(&each)) return malformed("update shorter than its expectations");
    if (each.slot >= protocol::kReplySlots) return malformed("reply slot out of range");
    if (each.bytes > sizes.down_bytes || each.offset > sizes.down_bytes - each.bytes)
      return malformed("results outside of the down-slab");
    update->expectations.push_back(each);
  }
  bool ok = true;
  update->inline_ring = reader.view(header.inline_bytes, &ok);
  if (!ok || !reader.at_end()) return malformed("update of another length");
  return ok_status();
}

Status read_report(std::span<const std::byte> message, Report* report) {
  MessageReader reader(message);
  if (!reader.take(&report->header)) return malformed("report shorter than its header");
  const ReportHeader& header = report->header;
  if ((header.flags & ~kReportHasPage) != 0) return malformed("unknown flags");
  if (header.calls > protocol::kHostCallEntries) return malformed("too many host calls");
  if (header.replies > protocol::kReplySlots) return malformed("too many replies");
  report->has_page = (header.flags & kReportHasPage) != 0;
  if (report->has_page && !reader.take(&report->page)) return malformed("report without its page");
  report->calls.resize(header.calls);
  for (protocol::HostCallEntry& call : report->calls) {
    if (!reader.take(&call)) return malformed("report shorter than its calls");
  }
  report->answers.resize(header.replies);
  for (Report::Answer& answer : report->answers) {
    ReplyEntry entry;
    if (!reader.take(&entry)) return malformed("report shorter than its replies");
    if (entry.slot >= protocol::kReplySlots) return malformed("reply slot out of range");
    if (entry.payload_bytes > protocol::kReplyPayloadBytesMax)
      return malformed("payload longer than the limit");
    if (entry.down_bytes > kInlineDownBytesMax) return malformed("too many inline results");
    bool ok = true;
    answer.slot = entry.slot;
    answer.result = entry.result;
    answer.payload = reader.view(entry.payload_bytes, &ok);
    answer.down = reader.view(entry.down_bytes, &ok);
    if (!ok) return malformed("report shorter than its results");
  }
  if (!reader.at_end()) return malformed("report of another length");
  return ok_status();
}

}  // namespace vgpu::net
