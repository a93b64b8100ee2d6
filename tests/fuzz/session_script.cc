// Turns bytes into records: mostly well-formed ones, so that the handlers are reached.
// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/session_script.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "server/serve.h"
#include "tests/fuzz/recorded_script.h"
#include "tests/support/guest.h"

namespace vgpu::testing {
namespace {

struct Shape {
  uint16_t op;
  uint32_t args_bytes;
};

// Every command there is.
#define OP_SHAPE(name) {static_cast<uint16_t>(Op::k##name), sizeof(wire::name##Args)},
constexpr Shape kShapes[] = {
#include "op_shapes.inc"
};
#undef OP_SHAPE

constexpr size_t kRecordsMax = 64;
constexpr uint64_t kMiB = 1 << 20;

class Bytes {
 public:
  explicit Bytes(std::span<const uint8_t> bytes) : rest_(bytes) {}
  bool empty() const { return rest_.empty(); }
  uint8_t next() {
    if (rest_.empty()) return 0;
    const uint8_t byte = rest_[0];
    rest_ = rest_.subspan(1);
    return byte;
  }

 private:
  std::span<const uint8_t> rest_;
};

// One byte says what an 8-byte word of a struct is: a value that means something, or a raw number.
uint64_t word(Bytes* in, uint64_t base) {
  const uint64_t meaningful[] = {0,
                                 1,
                                 2,
                                 4,
                                 16,
                                 4096,
                                 2 * kMiB,
                                 4 * kMiB,
                                 kContextId,
                                 stream_id(0),
                                 stream_id(1),
                                 event_id(0),
                                 event_id(1),
                                 base,
                                 base + 2 * kMiB,
                                 base + 4 * kMiB - 8,
                                 ~uint64_t{0},
                                 uint64_t{1} << 63,
                                 SlotId::make(4, 1, 0),
                                 SlotId::make(8, 1, 0),
                                 SlotId::make(9, 1, 0),      // an array
                                 SlotId::make(10, 1, 0),     // a mipmapped one
                                 SlotId::make(11, 1, 0),     // a host function
                                 SlotId::make(0x22, 1, 0)};  // a graph
  const uint8_t kind = in->next();
  if (kind < 230) return meaningful[kind % std::size(meaningful)];
  uint64_t value = 0;
  for (int i = 0; i < 8; ++i) value = value << 8 | in->next();
  return value;
}

// False when the ring has no room: nothing reads it yet.
bool write_one(protocol::Producer* producer, Bytes* in, uint64_t base, uint64_t* ring_bytes) {
  const uint8_t choice = in->next();
  Shape shape = kShapes[choice % std::size(kShapes)];
  if (choice >= 250) {  // any number, any size
    const uint8_t low = in->next(), high = in->next();
    shape = {static_cast<uint16_t>(low | high << 8), in->next()};
  }
  // Only recorded_script.cc can see to it that its words are true.
  if (shape.op == static_cast<uint16_t>(Op::kHostMap)) shape = kShapes[0];
  const uint8_t tail = in->next();
  const uint32_t blob_bytes = (tail & 7) == 0 ? tail * 4u : 0;
  const uint32_t reply = (tail & 8) != 0 ? tail % protocol::kReplySlots : protocol::kNoReply;
  const uint32_t bytes =
      protocol::round_up_to_record(sizeof(protocol::RecordHeader) + shape.args_bytes + blob_bytes);
  if (*ring_bytes + bytes + protocol::kRecordBytesMax > protocol::kRingBytesMin) return false;
  *ring_bytes += bytes;
  std::byte* place = producer->reserve(bytes);
  if (place == nullptr) return false;
  std::memset(place, tail, bytes);
  const protocol::RecordHeader header{bytes, shape.op, 0, blob_bytes, reply};
  std::memcpy(place, &header, sizeof(header));
  for (uint32_t at = 0; at + 8 <= shape.args_bytes; at += 8) {
    const uint64_t value = word(in, base);
    std::memcpy(place + sizeof(header) + at, &value, sizeof(value));
  }
  producer->commit();
  return true;
}

// Writes a whole compact script into the guest's ring.
void write_script(protocol::GuestChannel* channel, uint64_t base, std::span<const uint8_t> input,
                  ScriptResult* result) {
  uint64_t ring_bytes = 0;
  Guest guest(channel);
  Bytes bytes(input);
  if (bytes.next() % 8 != 0) {
    guest.enter_context();
    wire::MemMapArgs map;
    map.address = base;
    map.bytes = 4 * kMiB;
    guest.post(Op::kMemMap, map);
  }
  while (!bytes.empty() && result->records < kRecordsMax &&
         write_one(&channel->producer(), &bytes, base, &ring_bytes)) {
    ++result->records;
  }
}

}  // namespace

ScriptResult run_session_script(const DriverTable* driver, std::span<const uint8_t> input,
                                int64_t answer_ns) {
  ScriptResult result;
  const bool recorded = !input.empty() && input[0] == kRecordedScript;
  setenv("MEMORY_DRIVER_DEVICES", "2", 1);  // what sessions are recorded with
  auto devices = server::Devices::open(driver);
  if (!devices.ok()) return result;
  devices->reserve_ahead();
  const uint64_t quota = (recorded ? 1024 : 64) * kMiB;  // as much as recorded-oom took
  if (!devices->grant_all(quota).ok()) return result;
  protocol::HelloReply reply = server::make_reply(&*devices, test_hello(), 1, "test");
  if (!recorded) {
    reply.sizes = {protocol::kRingBytesMin, protocol::kSlabBytesMin, protocol::kSlabBytesMin};
  }
  auto pair = protocol::make_loop(reply.sizes);
  auto worker = protocol::WorkerChannel::create(std::move(pair->worker));
  auto guest_channel = protocol::GuestChannel::open(std::move(pair->guest));
  std::thread writer;
  if (recorded) {  // its guest waits for answers, so it writes while the session runs
    writer = std::thread([&] {
      result.records = write_recorded_script(guest_channel->get(), input.subspan(1), answer_ns);
      (*worker)->mark_dead();
    });
  } else {
    write_script(guest_channel->get(), reply.device_range.base, input, &result);
    (*worker)->mark_dead();  // the session ends when it has read all that was published
  }
  result.malformed = server::serve_guest(driver, &*devices, reply, worker->get()) ==
                     server::SessionEnd::kMalformed;
  (*guest_channel)->mark_dead();
  if (writer.joinable()) writer.join();
  if (reply.device_range.bytes != 0) {
    (void)driver->cuMemAddressFree(reply.device_range.base, reply.device_range.bytes);
  }
  return result;
}

}  // namespace vgpu::testing
