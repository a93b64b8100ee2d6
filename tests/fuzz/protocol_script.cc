// A hostile guest made of bytes.
// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/protocol_script.h"

#include <cstring>
#include <memory>

#include "base/mapping.h"
#include "protocol/mailbox/mailbox.h"
#include "protocol/ring/consumer.h"
#include "protocol/session/figures.h"
#include "protocol/session/messages.h"
#include "protocol/transport/transport.h"
#include "protocol/wire/decoder.h"
#include "tests/fuzz/require.h"

namespace vgpu::protocol {
namespace {

using testing::require;

// Takes values from the front of the input; zeros when it is used up.
class Input {
 public:
  explicit Input(std::span<const uint8_t> bytes) : left_(bytes) {}
  bool empty() const { return left_.empty(); }
  template <typename T>
  T take() {
    T value{};
    const auto some = take_bytes(sizeof(T));
    std::memcpy(&value, some.data(), some.size());
    return value;
  }
  std::span<const uint8_t> take_bytes(size_t count) {
    const auto some = left_.subspan(0, std::min(count, left_.size()));
    left_ = left_.subspan(some.size());
    return some;
  }

 private:
  std::span<const uint8_t> left_;
};

template <size_t kBytes>
void try_decode(const Record& record) {
  struct Args {
    std::byte bytes[kBytes];
  };
  Args args;
  Blob blob;
  if (!decode(record, &args, &blob)) return;
  require(blob.size() == record.header.blob_bytes);
  require(sizeof(Args) + blob.size() <= record.body.size());
  require(blob.empty() || (blob.data() >= record.body.data() &&
                           blob.data() + blob.size() <= record.body.data() + record.body.size()));
}

void check_record(const Record& record, uint64_t sequence) {
  require(record.sequence == sequence);
  require(record.header.op != kPadOp);
  require(record.header.bytes >= sizeof(RecordHeader) && record.header.bytes <= kRecordBytesMax);
  require(record.header.bytes % kRecordAlignBytes == 0);
  require(record.body.size() == record.header.bytes - sizeof(RecordHeader));
  require(record.header.blob_bytes <= record.body.size());
  require(record.header.reply == kNoReply || record.header.reply < kReplySlots);
  // Touches every byte, so that a sanitizer sees a body that is not all there.
  uint8_t sum = 0;
  for (const std::byte byte : record.body)
    sum = static_cast<uint8_t>(sum + static_cast<uint8_t>(byte));
  volatile uint8_t sink = sum;
  (void)sink;
  try_decode<8>(record);
  try_decode<64>(record);
  try_decode<96>(record);
}

}  // namespace

uint64_t run_ring_script(std::span<const uint8_t> bytes) {
  const ChannelSizes sizes{kRingBytesMin, kSlabBytesMin, kSlabBytesMin};
  static LoopPair pair = [&] {
    Result<LoopPair> made = make_loop(sizes);
    require(made.ok());
    return std::move(made).value();
  }();
  const ChannelView view(pair.worker->memory().data(), sizes);
  std::memset(static_cast<void*>(view.header()), 0, sizeof(ChannelHeader));
  auto consumer = std::make_unique<Consumer>(view, SpinMode::kNever);
  Input input(bytes);
  uint64_t position = 0;  // where an honest guest would write next
  uint64_t records = 0;
  while (!input.empty()) {
    switch (input.take<uint8_t>() % 6) {
      case 0: {  // a header at the honest place
        RecordHeader header = input.take<RecordHeader>();
        if (input.take<uint8_t>() % 4 != 0) {  // mostly sizes that can be
          header.bytes = round_up_to_record(16 + header.bytes % 512);
          header.blob_bytes %= header.bytes - 15;
          if (header.reply % 2 == 0) header.reply = kNoReply;
        }
        std::memcpy(view.ring() + position % kRingBytesMin, &header, sizeof(header));
        position += header.bytes & ~uint32_t{15};
        break;
      }
      case 1: {  // bytes anywhere
        const uint64_t at = input.take<uint32_t>() % (kRingBytesMin - 256);
        const auto some = input.take_bytes(input.take<uint8_t>());
        std::memcpy(view.ring() + at, some.data(), some.size());
        break;
      }
      case 2:
        view.header()->tail.position.store(position);
        break;
      case 3:
        view.header()->tail.position.store(input.take<uint64_t>());
        break;
      case 4: {  // a jump of the honest place, to meet the ring's end
        position += uint64_t{input.take<uint16_t>()} * 16;
        break;
      }
      default:
        require(consumer->wait(0) != WaitResult::kDead);
        for (int i = 0; i < 16; ++i) {
          Record record;
          const PeekResult result = consumer->peek(&record);
          if (result == PeekResult::kMalformed) {
            require(!consumer->error().ok());
            return records;
          }
          if (result == PeekResult::kEmpty) break;
          check_record(record, ++records);
          consumer->release();
        }
    }
  }
  return records;
}

namespace {

// The messages about figures, which are decoded by themselves.
bool run_figures_script(const std::vector<uint8_t>& copy) {
  if (const auto request = decode_figures_request(copy); request.ok()) {
    require(decode_figures_request(encode_figures(*request)).ok());
    return true;
  }
  const auto reply = decode_figures_reply(copy);
  if (!reply.ok()) return false;
  const std::vector<uint8_t> again = encode_figures(*reply);
  require(again.size() <= kControlMessageBytesMax);
  const auto second = decode_figures_reply(again);
  require(second.ok() && second->guests.size() == reply->guests.size());
  for (const OwnGuest& guest : second->guests) {
    for (const OwnUse& use : guest.uses) require(use.device < second->devices.size());
  }
  return true;
}

}  // namespace

bool run_control_script(std::span<const uint8_t> bytes) {
  // An exact copy, aligned as received frames are, so that a sanitizer sees a read beyond the end.
  const std::vector<uint8_t> copy(bytes.begin(), bytes.end());
  if (run_figures_script(copy)) return true;
  const Result<Message> message = decode_message(copy);
  if (!message.ok()) return false;
  const std::vector<uint8_t> again = encode_message(message.value());
  require(again.size() <= kControlMessageBytesMax);
  const Result<Message> second = decode_message(again);
  require(second.ok() && second.value().index() == message.value().index());
  return true;
}

uint64_t run_mail_script(std::span<const uint8_t> bytes) {
  static Mapping memory = [] {
    Result<Mapping> made = Mapping::map_private(kRegionControlBytes);
    require(made.ok());
    return std::move(made).value();
  }();
  auto* header = reinterpret_cast<RegionHeader*>(memory.data());
  Mailbox host(memory.data(), /*host=*/true);
  host.reset();
  Input input(bytes);
  uint64_t believed = 0;
  // The machine writes anywhere, and goes on while the host reads.
  while (!input.empty()) {
    const uint64_t tail = input.take<uint32_t>();
    const auto some = input.take_bytes(input.take<uint16_t>());
    std::memcpy(memory.data() + kMailToHostOffset, some.data(), some.size());
    header->to_host_tail.position.store(tail, std::memory_order_release);
    Mail mail;
    MailResult result = MailResult::kMail;
    for (uint64_t taken = 0; (result = host.receive(&mail)) == MailResult::kMail; ++believed) {
      require(mail.connection < kVmConnectionsMax && mail.bytes.size() <= kControlMessageBytesMax);
      require(++taken <= kMailRingBytes / sizeof(MailHeader));  // every piece of mail moves on
      (void)run_control_script(mail.bytes);
    }
    header->to_guest_head.position.store(tail, std::memory_order_release);
    (void)host.send(MailKind::kBye, 0);
    if (result == MailResult::kMalformed) host.reset();
  }
  return believed;
}

std::vector<std::vector<uint8_t>> control_seeds() {
  Hello hello;
  hello.executable = "app";
  hello.device_ranges = {{1 << 30, 1 << 21}, {1 << 30, 1 << 22}};
  HelloReply reply;
  reply.memory_bytes = 1;
  reply.devices.resize(2);
  reply.devices[0].attributes = {1, 2, 3};
  reply.devices[1].limits = {1024, 8192};
  InfoReply info;
  info.guests.resize(3);
  info.devices.resize(1);
  NetAttach attach;
  attach.hello = hello;
  attach.provider = "tcp";
  NetAttached attached;
  attached.reply = reply;
  attached.address = {1, 2, 3};
  attached.beat_ms = 1000;
  const Message messages[] = {hello,
                              reply,
                              info,
                              Refusal{2, "no"},
                              StopRequest{true},
                              StopReply{1},
                              InfoRequest{},
                              attach,
                              attached,
                              NetBeat{1, 2},
                              NetDetach{3},
                              NetEnded{4, "why"},
                              GuestsRequest{1},
                              GuestsReply{},
                              SteerRequest{},
                              SteerReply{}};
  std::vector<std::vector<uint8_t>> seeds;
  for (const Message& message : messages) seeds.push_back(encode_message(message));
  FiguresReply figures;
  figures.devices.resize(2);
  figures.devices[0].facts = {8, 0, 4};
  figures.guests.resize(1);
  figures.guests[0].uses = {{1, 2, 3}};
  figures.guests[0].engine_ns = {1, 2, 3};
  seeds.push_back(encode_figures(figures));
  seeds.push_back(encode_figures(FiguresRequest{"l", 1, "0", "p", "t"}));
  return seeds;
}

}  // namespace vgpu::protocol
