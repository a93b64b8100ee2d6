// One guest's session: takes its commands from the channel and carries them out on the driver.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SERVER_SESSION_H_
#define VGPU_SERVER_SESSION_H_

#include <array>
#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "protocol/session/channel.h"
#include "server/admission.h"
#include "server/array.h"
#include "server/attach.h"
#include "server/completion.h"
#include "server/figures.h"
#include "server/graph.h"
#include "server/green.h"
#include "server/guest_memory.h"
#include "server/handles.h"
#include "server/host_blocks.h"
#include "server/host_calls.h"
#include "server/link.h"
#include "server/module.h"
#include "server/neighbours.h"
#include "server/objects.h"
#include "server/output.h"
#include "server/physical.h"
#include "server/record.h"
#include "server/shares.h"
#include "server/watchdog.h"
#include "server/worker_link.h"

namespace vgpu::server {

inline constexpr uint64_t kLegacyStream = 1;  // id of the default stream of the bound context
// Up-slab bytes after which their retirement is asked for even though more commands wait.
inline constexpr uint64_t kSlabFlushBytes = 512 * 1024;
// Copies to the guest up to this size are looked after by the consumer itself while the ring is
// empty, for at most so long; then a thread waits.
inline constexpr uint64_t kSoonBytesMax = 64 * 1024;
inline constexpr int64_t kSoonNs = 50'000;
// Commands between two publications of the executed sequence while more commands wait.
inline constexpr uint32_t kExecutedBatch = 32;

// Pieces of work of one stream at which a driver blocks the caller.
inline constexpr uint32_t kDriverQueueDepth = 1024;

// Whether a result means that the context is broken for good.
bool is_sticky(CUresult result);

enum class SessionEnd : uint8_t { kGuestGone, kMalformed, kDriverFailed };

// What a piece of work for a stream needs beside its driver call.
struct WorkOptions {
  uint32_t weight = 1;                   // places it takes in the driver's queue
  LanePoint after = {};                  // a place in another lane that must be passed first
  bool may_block = false;                // the driver call itself waits for the device
  LanePoint* place = nullptr;            // out: where it is when it waits in a lane
  std::span<const std::byte> blob = {};  // handed to the call; copied when the work has to wait
  DeviceWork work = {};                  // what it takes of the device
  bool instant = false;                  // no work, and waits for nothing but what is before it
  bool ours = false;                     // nothing that later work of the guest's comes behind
};

// The consumer's thread calls everything but what says otherwise. Owns nothing of the driver's
// devices; the process (or the test) that opened them keeps them.
class Session {
 public:
  struct Config {
    const DriverTable* driver = nullptr;
    Devices* devices = nullptr;         // the guest's; the first is open
    protocol::AddressRange host_range;  // where the guest may put memory of cuMemHostAlloc
    FlowLimits flow{kDriverQueueDepth};
    uint64_t number = 0;               // of this session, for what it shares
    bool shares_memory = false;        // the driver hands memory to other processes
    bool passes_descriptors = true;    // to and from the guest
    Shares* shares = nullptr;          // what it shares; null: only it looks there
    Peers* peers = nullptr;            // the other sessions; null: there are none
    WorkerPage* page = nullptr;        // where figures are published; null: nobody looks
    protocol::GuestLimits limits;      // of what the guest may hold
    Output* output = nullptr;          // where the driver prints; null: in the guest's own process
    TurnLink* turns = nullptr;         // with whom it shares the devices; null: with nobody
    Neighbours* neighbours = nullptr;  // with whom it shares its contexts; null: with nobody
    uint32_t place = 0;                // among them
    uint64_t late_ns = 0;              // that every piece of work is held back, for tests
  };

  Session(const Config& config, protocol::WorkerChannel* channel, GuestMemory* memory);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Carries out commands until the guest is gone or a rule is broken. reason() says more.
  SessionEnd run();
  const std::string& reason() const { return reason_; }

  // After run(): waits for everything that still waits for the device, and gives back what the
  // guest has made. For a session whose process goes on; a worker's process just ends. False when
  // the driver is shutting down and may still use what is the session's.
  [[nodiscard]] bool release_all();

  // --- for the generated dispatch and the handlers; all return whether the session goes on
  bool malformed(const Record& record, const char* what);
  bool refuse(const Record& record, const char* function);
  bool complete(const Record& record, CUresult result, const void* payload, size_t bytes);
  // Result of an asynchronous command: a device fault becomes sticky, any other failure is our bug
  // and ends the session.
  bool forgotten(const Record& record, CUresult result);

  // Work that still waits in lanes is not carried out: its guest has gone, and others go on.
  bool abandons(const DeviceWork& work) const {
    return work.cost_ns != 0 && abandoning_.load(std::memory_order_relaxed);
  }
  // Others have sessions in this process and in its contexts: it ends in order, waits for its own
  // work only, and has a default stream of its own.
  bool is_packed() const { return config_.neighbours != nullptr; }
  // Thread-safe: a fault that another session has met in a context that is this one's too.
  void hear_of_fault(CUcontext context, CUresult result);
  // Waits for the guest's work in a context, which is current: all of the driver's, or where others
  // have work there only its own. Nothing more is issued meanwhile.
  CUresult finish_work(Context* context);

  const DriverTable& driver() const { return *config_.driver; }
  const Config& config() const { return config_; }
  protocol::WorkerChannel& channel() { return *channel_; }
  GuestMemory& memory() { return *memory_; }
  // The guest's device of this number once it is open, else nullptr. Thread-safe.
  Device* find_device(uint32_t number) const {
    Device* device = config_.devices->at(number);
    return device != nullptr && device->is_open() ? device : nullptr;
  }
  // Memory that the guest can have of a device without asking. The consumer.
  void back_ahead(uint32_t device);
  // The context whose life is the session's: what belongs to none of the guest's is done there.
  // Thread-safe.
  CUcontext home() const { return config_.devices->first().primary(); }
  HostBlocks& host_memory() { return host_memory_; }
  Admission& admission() { return admission_; }
  Figures& figures() { return figures_; }
  Watchdog& watchdog() { return watchdog_; }  // thread-safe
  CompletionPool& pool() { return pool_; }
  // For what waits and is not waited for, one after the other.
  RetirementQueue& drop_queue() { return drop_queue_; }
  // For what tells other sessions that a record is past: nobody's answer may wait behind these.
  CompletionPool& announcers() { return announcers_; }
  // Pages of shared events are taken from the driver there.
  const std::shared_ptr<RetirementQueue>& page_queue() { return page_queue_; }
  Lanes& lanes() { return lanes_; }
  HostCalls& host_calls() { return host_calls_; }
  ModuleTable& modules() { return modules_; }
  Context* bound() { return bound_; }

  // The stream that a command names, in the bound context; nullptr = malformed.
  Stream* find_stream(uint64_t id);
  HandleTable<Stream>& streams() { return streams_; }
  HandleTable<EventEntry>& events() { return events_; }
  ArrayTables& arrays() { return arrays_; }
  PhysicalTable& physical() { return physical_; }
  Shares& shares() { return *config_.shares; }
  FetchedTable& fetched() { return fetched_; }
  HandleTable<GraphEntry>& graphs() { return graphs_; }
  HandleTable<GraphSourceEntry>& graph_sources() { return graph_sources_; }
  HandleTable<LinkEntry>& links() { return links_; }
  SmResources& sm_resources() { return sm_resources_; }
  Greens& greens() { return greens_; }

  // --- work for streams (work.cc)
  // Calls the driver for `stream`, now or, when the stream is deep, from its lane. `call(driver,
  // stream's handle, blob)` must own what it needs later. `op` names it if it fails in the lane.
  // The driver's result; CUDA_SUCCESS when it waits in a lane. Defined in work.h.
  template <typename Call>
  CUresult issue(Stream* stream, uint16_t op, Call call, const WorkOptions& options = {});
  // The same for a command that nobody waits for. Whether the session goes on.
  template <typename Call>
  bool submit(Stream* stream, const Record& record, Call call, const WorkOptions& options = {}) {
    return forgotten(record, issue(stream, record.op(), std::move(call), options));
  }
  // While work waits in lanes: whether an event of the driver's is past, so that nobody waits who
  // waits for it. (Else nobody asks.)
  bool is_past(CUevent event, const LanePoint& recorded) {
    return !busy_lanes_.empty() && recorded.passed() && event != nullptr &&
           driver().cuEventQuery(event) == CUDA_SUCCESS;
  }
  // Whether this one has.
  bool waits_in_lane(const Stream& stream) const {
    return stream.lane != nullptr && !stream.lane->idle();
  }
  // The ends of all lanes, or of those of one context.
  std::vector<LanePoint> lane_ends(const Context* context = nullptr);
  // The stream goes: its lane serves another once it is empty.
  void abandon_lane(Lane* lane);
  // Thread-safe: an asynchronous command of a guest failed. Ends the session unless it is a fault.
  void failed_call(uint16_t op, const Context* context, CUresult result);

  // --- contexts (context.cc)
  Context* add_context(uint64_t id, CUcontext handle, uint32_t slot, uint32_t device, bool primary);
  // The live context of this name. known: also one that is still being made.
  Context* find_context(uint64_t id);
  Context* find_known_context(uint64_t id);
  bool has_primary(uint32_t device) const;
  // Whether the driver's context of a device may end with the guest's primary one.
  bool may_close(const Context& primary) const;
  CUresult bind(Context* context);
  CUresult revive(Context* context);
  // The bound context is gone.
  void unbind();
  // Calls `work` with the device's primary context current, for memory that the driver places on
  // that device: it outlives every other context.
  template <typename Work>
  CUresult in_primary(const Device& device, Work work) {
    (void)driver().cuCtxSetCurrent(device.primary());
    const CUresult result = work();
    if (bound_ != nullptr) (void)bind(bound_);
    return result;
  }
  // home() is a context of the guest's as well, and a fault may have broken it. A context that may
  // stand in for it: the bound one if it is sound; null: there is none. The consumer.
  Context* spare();
  // Calls `work`, which makes something that is of no context of the guest's, with home() current,
  // or else `spare`. Leaves either current. Thread-safe.
  template <typename Work>
  CUresult make_at_home(Context* spare, Work work) {
    if (const Context* own = home_context(); spare == nullptr || own == nullptr || !own->faulted) {
      (void)driver().cuCtxSetCurrent(home());
      const CUresult result = noted(work(), own);
      if (spare == nullptr || !is_sticky(result)) return result;
    }
    const Rundown::Use use(&spare->use);
    if (!use) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    (void)driver().cuCtxSetCurrent(spare->handle);
    return noted(work(), spare);
  }
  // The same for the consumer, which is back in its context afterwards.
  template <typename Work>
  CUresult make_at_home(Work work) {
    const CUresult result = make_at_home(spare(), std::move(work));
    if (bound_ != nullptr) (void)bind(bound_);
    return result;
  }
  // Calls `work`, which ends such a thing; that home() is broken is nothing to whoever asks.
  // Thread-safe.
  template <typename Work>
  CUresult end_at_home(Work work) {
    (void)driver().cuCtxSetCurrent(home());
    const CUresult result = noted(work(), home_context());
    return is_sticky(result) ? CUDA_SUCCESS : result;
  }
  // `context` gets or loses access to memory of `peer`'s device. What the driver says.
  CUresult set_peer(Context* context, Context* peer, bool enable);
  // Who may use whose memory: pairs of the driver's contexts.
  using PeerPairs = std::vector<std::pair<CUcontext, CUcontext>>;
  // Nobody has access by way of this context any more, and it has none. The driver is to be told
  // once what may use it is past.
  PeerPairs drop_peers(Context* context);
  // What the guest has made in a context, taken out of the tables.
  struct Remains {
    uint32_t device = 0;
    PeerPairs peers;
    std::vector<std::unique_ptr<Stream>> streams;
    std::vector<std::unique_ptr<EventEntry>> events;
    std::vector<std::shared_ptr<Module>> modules;
    std::vector<LanePoint> lanes;
    ArrayRemains arrays;
    std::vector<std::unique_ptr<GraphEntry>> graphs;
    std::vector<std::unique_ptr<GraphSourceEntry>> graph_sources;
    std::vector<std::unique_ptr<LinkEntry>> links;
    std::vector<Green> greens;
  };
  Remains take_from(Context* context);
  // Thread-safe; the context is current. Another one may be when it returns.
  void destroy_remains(Remains* remains);

  // --- events of a whole context, which is bound (event.cc)
  // Before any work of a new stream: it waits for what its context waits for.
  CUresult catch_up(Stream* fresh);

  // --- default streams of ours (default_stream.cc)
  // The bound context's default stream is one of ours from now on.
  CUresult own_default_stream(Context* context);
  // `stream`, which is ordered, gets work next: first the order of a legacy default stream.
  CUresult order(Stream* stream, const WorkOptions& options);
  // A stream is about to be destroyed.
  CUresult depart(Stream* stream);

  // --- waiting (marks.cc)
  // An event of ours behind everything in `stream` so far.
  CUresult mark(Stream* stream, MarkRef* mark);
  // Marks behind everything that is in flight in a context, which is then bound.
  CUresult mark_context(Context* context, Marks* marks);
  // The same in all contexts, for a fence: later fences need not look at that work again.
  CUresult mark_all(Marks* marks);
  bool past(const Mark& mark);
  CUresult wait(const Mark& mark);  // thread-safe: blocks until past
  // Answers `reply` once the marks are past, with `result` when that worked.
  void answer_after(Marks marks, uint32_t reply, Context* context);
  // The same for what is likely to be past within microseconds.
  void answer_soon(MarkRef mark, uint32_t reply);
  // `job` for a helper, to run once everything is past that is in flight now, in any context: what
  // a driver waits for by itself is one context only. It is told what came of the bound one's work.
  std::function<void()> behind_all(std::function<void(CUresult)> job);
  // Thread-safe. A result of the driver in `context`: sets the sticky word when it is a fault.
  CUresult noted(CUresult result, const Context* context);

  // --- what kernels print (print.cc); thread-safe
  // Whether some code of the guest's may print. Then whoever waits lets the driver print first:
  // only its own waiting calls do that.
  bool prints() const { return prints_.load(std::memory_order_relaxed); }
  void code_prints() {
    if (config_.output != nullptr || !is_packed()) prints_.store(true, std::memory_order_relaxed);
  }
  // After a call in which the driver may have printed: tells the guest what is there.
  void publish_output() {
    if (config_.output != nullptr) config_.output->publish();
  }
  // Lets the driver print what a context's kernels have left that is idle.
  void print_idle(Context* context);

  // A command has used up-slab bytes: `stream` reads them, or nobody does any more (nullptr).
  void slab_used(Stream* stream, uint64_t bytes, uint64_t sequence);
  // The stream is about to go: what it reads of the slab is retired first.
  void forget_slab_stream(Stream* stream);
  void slab_registered(bool registered) { slab_registered_ = registered; }
  bool slab_registered() const { return slab_registered_; }
  void fence(Marks marks, uint64_t sequence);
  // Work up to the marks may still use `held`, which goes when they are past.
  void let_go(Marks marks, std::shared_ptr<void> held);

 private:
  struct Soon {
    MarkRef mark;
    uint32_t reply = 0;
    int64_t until_ns = 0;
  };

  void bound_handles();
  bool step(const protocol::Record& record);
  void idle();
  // The guest's own context at home(); null: it has not named it yet. Thread-safe.
  const Context* home_context() const { return home_context_.load(std::memory_order_acquire); }
  // Answers those of soon_ that are past; hands over those that take longer. Whether some are left.
  bool poll_soon();
  void flush_slab();
  void retire(RetirementQueue* queue, Marks marks, protocol::Semaphore semaphore,
              uint64_t sequence);
  void fail(SessionEnd end, CUresult result, std::string reason);

  // Under issue(): when nothing waits anywhere, and when something does.
  template <typename Call>
  CUresult issue_now(Stream* stream, Call& call, const WorkOptions& options,
                     const Admission::Ticket& ticket);
  template <typename Call>
  CUresult issue_carefully(Stream* stream, uint16_t op, Call call, const WorkOptions& options);
  void touch(Stream* stream) {
    if (stream->dirty || stream->ending) return;
    stream->dirty = true;
    stream->context->dirty.push_back(stream);
  }
  // At once; in its lane, but behind nothing that takes time; in its lane, behind other work.
  enum class Way : uint8_t { kNow, kSoon, kLater };
  // When the driver can have work of `stream`. *after: what it must wait for.
  Way route(Stream* stream, const WorkOptions& options, std::vector<LanePoint>* after);
  void free_idle_lanes();
  bool waits_for_work(Stream* stream);
  LanePoint defer(Stream* stream, std::unique_ptr<LaneCommand> command, const WorkOptions& options,
                  std::vector<LanePoint> after);

  Config config_;
  protocol::WorkerChannel* channel_;
  GuestMemory* memory_;
  Admission admission_;
  Figures figures_;
  HandleBudget budget_;
  std::deque<Context> contexts_;  // never shrinks: all below, and waiting threads, refer to them
  std::atomic<const Context*> home_context_{nullptr};
  std::array<std::atomic<const Context*>, protocol::kDevicesMax> primaries_{};  // by device
  // Of its own, as shares may outlive the session.
  const std::shared_ptr<RetirementQueue> page_queue_ = std::make_shared<RetirementQueue>();
  HandleTable<Stream> streams_;
  HandleTable<EventEntry> events_;
  ModuleTable modules_;
  ArrayTables arrays_;
  HostCalls host_calls_;  // before those whose points go back there
  PhysicalTable physical_;
  Shares own_shares_;
  FetchedTable fetched_;
  HandleTable<GraphEntry> graphs_;
  HandleTable<GraphSourceEntry> graph_sources_;
  HandleTable<LinkEntry> links_;
  SmResources sm_resources_;
  Greens greens_;
  Context* bound_ = nullptr;
  HostBlocks host_memory_;
  std::vector<Lane*> busy_lanes_;
  // Of the last copy or fill that only waits for its turn, and for others like it; see
  // issue_carefully().
  LanePoint prompt_;
  std::vector<Soon> soon_;
  std::vector<Stream*> slab_streams_;  // read up-slab bytes that are not yet retired
  uint64_t slab_bytes_ = 0;
  uint64_t slab_sequence_ = 0;  // 0 = nothing to retire
  bool slab_registered_ = false;
  bool ordering_ = false;  // order() is under way
  uint64_t executed_ = 0;
  uint64_t executed_published_ = 0;
  std::mutex failure_mutex_;  // guards end_ and reason_
  std::atomic<bool> failed_{false}, abandoning_{false};
  std::atomic<bool> prints_{false};
  SessionEnd end_ = SessionEnd::kGuestGone;
  std::string reason_;
  RetirementQueue slab_queue_;
  RetirementQueue fence_queue_;
  RetirementQueue drop_queue_;
  Watchdog watchdog_;
  Lanes lanes_;
  CompletionPool announcers_;
  CompletionPool pool_;  // last: its threads use all of the above
};

// "CUDA_ERROR_…" for logs.
std::string result_name(const DriverTable& driver, CUresult result);

// Decodes one record and calls its handler (generated). False: the session is over.
bool dispatch(Session& session, const Record& record);

}  // namespace vgpu::server

#endif  // VGPU_SERVER_SESSION_H_
