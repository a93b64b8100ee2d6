// One guest's session: takes its commands from the channel and carries them out on the driver.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SERVER_SESSION_H_
#define VGPU_SERVER_SESSION_H_

#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "protocol/session/channel.h"
#include "server/admission.h"
#include "server/completion.h"
#include "server/device_memory.h"
#include "server/handles.h"
#include "server/module.h"
#include "server/objects.h"
#include "server/record.h"

namespace vgpu::server {

inline constexpr uint64_t kLegacyStream = 1;  // id of the default stream of the bound context
// Up-slab bytes after which their retirement is asked for even though more commands wait.
inline constexpr uint64_t kSlabFlushBytes = 512 * 1024;
// Copies to the guest up to this size are waited for by the consumer when the device is idle.
inline constexpr uint64_t kDirectCopyBytesMax = 64 * 1024;
// Commands between two publications of the executed sequence while more commands wait.
inline constexpr uint32_t kExecutedBatch = 32;

enum class SessionEnd : uint8_t { kGuestGone, kMalformed, kDriverFailed };

// The consumer's thread calls everything but what says otherwise. Owns nothing of the driver's
// device; the process (or the test) that made the context keeps it.
class Session {
 public:
  struct Config {
    const DriverTable* driver = nullptr;
    CUdevice device = 0;
    CUcontext primary = nullptr;
    protocol::AddressRange host_range;  // where the guest may put memory of cuMemHostAlloc
  };

  Session(const Config& config, protocol::WorkerChannel* channel, DeviceMemory* memory);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Carries out commands until the guest is gone or a rule is broken. reason() says more.
  SessionEnd run();
  const std::string& reason() const { return reason_; }

  // After run(): waits for everything that still waits for the device, and gives back what the
  // guest has made. For a session whose process goes on; a worker's process just ends.
  void release_all();

  // --- for the generated dispatch and the handlers; all return whether the session goes on
  bool malformed(const Record& record, const char* what);
  bool refuse(const Record& record, const char* function);
  bool complete(const Record& record, CUresult result, const void* payload, size_t bytes);
  // Result of an asynchronous command: a device fault becomes sticky, any other failure is our bug
  // and ends the session.
  bool forgotten(const Record& record, CUresult result);
  bool stream(uint64_t id, CUstream* handle);
  bool event(uint64_t id, CUevent* handle);

  const DriverTable& driver() const { return *config_.driver; }
  const Config& config() const { return config_; }
  protocol::WorkerChannel& channel() { return *channel_; }
  DeviceMemory& memory() { return *memory_; }
  AddressSet& host_memory() { return host_memory_; }
  std::map<uint64_t, uint64_t>& host_blocks() { return host_blocks_; }  // address -> bytes
  Admission& admission() { return admission_; }
  CompletionPool& pool() { return pool_; }
  ModuleTable& modules() { return modules_; }
  Context* bound() { return bound_; }

  // The stream that a command names, in the bound context; nullptr = malformed.
  Stream* find_stream(uint64_t id);
  void touch(Stream* stream);  // work went to it
  bool device_idle();          // whether all work of the session is known to be past
  // Forgets what is dirty because everything submitted so far is past.
  void all_past();

  HandleTable<Stream>& streams() { return streams_; }
  HandleTable<EventEntry>& events() { return events_; }

  Context* add_context(uint64_t id, CUcontext handle, uint32_t slot, bool primary);
  Context* find_context(uint64_t id);
  CUresult bind(Context* context);
  void forget_context(Context* context);
  CUresult revive(Context* context);
  void unbind() { bound_ = nullptr; }  // its context is gone

  // An event of ours behind everything in `stream` so far.
  CUresult mark(Stream* stream, Mark* mark);
  // Events behind everything that is in flight in all contexts.
  CUresult mark_all(std::vector<Mark>* marks);
  CUresult wait(const Mark& mark);  // thread-safe: blocks until past, gives the event back
  // Answers `reply` once the marks are past, with `result` when that worked. `then` runs just
  // before the answer, on the waiting thread.
  void answer_after(std::vector<Mark> marks, uint32_t reply, Context* context);
  // Thread-safe. A result of the driver in `context`: sets the sticky word when it is a fault.
  CUresult noted(CUresult result, const Context* context);

  // A command has used up-slab bytes: `stream` reads them, or nobody does any more (nullptr).
  void slab_used(Stream* stream, uint64_t bytes, uint64_t sequence);
  // The stream is about to go: what it reads of the slab is retired first.
  void forget_slab_stream(Stream* stream);
  void slab_registered(bool registered) { slab_registered_ = registered; }
  bool slab_registered() const { return slab_registered_; }
  void fence(std::vector<Mark> marks, uint64_t sequence);

 private:
  bool step(const protocol::Record& record);
  void idle();
  void flush_slab();
  void retire(RetirementQueue* queue, std::vector<Mark> marks, protocol::Semaphore semaphore,
              uint64_t sequence);
  void fail(CUresult result, std::string reason);

  Config config_;
  protocol::WorkerChannel* channel_;
  DeviceMemory* memory_;
  Admission admission_;
  HandleTable<Stream> streams_;
  HandleTable<EventEntry> events_;
  ModuleTable modules_;
  std::deque<Context> contexts_;  // never shrinks: waiting threads refer to them
  Context* bound_ = nullptr;
  AddressSet host_memory_;
  std::map<uint64_t, uint64_t> host_blocks_;
  std::vector<Stream*> slab_streams_;  // read up-slab bytes that are not yet retired
  uint64_t slab_bytes_ = 0;
  uint64_t slab_sequence_ = 0;  // 0 = nothing to retire
  bool slab_registered_ = false;
  uint64_t executed_ = 0;
  uint64_t executed_published_ = 0;
  SessionEnd end_ = SessionEnd::kGuestGone;
  std::string reason_;
  RetirementQueue slab_queue_;
  RetirementQueue fence_queue_;
  CompletionPool pool_;  // last: its threads use all of the above
};

// Whether a result means that the context is broken for good.
bool is_sticky(CUresult result);
// "CUDA_ERROR_…" for logs.
std::string result_name(const DriverTable& driver, CUresult result);

// Decodes one record and calls its handler (generated). False: the session is over.
bool dispatch(Session& session, const Record& record);

}  // namespace vgpu::server

#endif  // VGPU_SERVER_SESSION_H_
