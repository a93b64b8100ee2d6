// The consumer's loop, and what every handler shares.
// SPDX-License-Identifier: Apache-2.0
#include "server/session.h"

#include <algorithm>

#include "op.h"
#include "server/log.h"

namespace vgpu::server {

using protocol::GuestLimit;
using protocol::Semaphore;

bool is_sticky(CUresult result) {
  switch (result) {
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED:
      return true;
    default:
      return false;
  }
}

std::string result_name(const DriverTable& driver, CUresult result) {
  const char* name = nullptr;
  if (driver.cuGetErrorName != nullptr && driver.cuGetErrorName(result, &name) == CUDA_SUCCESS &&
      name != nullptr) {
    return name;
  }
  return "CUresult " + std::to_string(static_cast<int>(result));
}

// Of the worker's threads most answer those that wait; the lanes have a fifth.
static unsigned lane_threads(const protocol::GuestLimits& limits) {
  return static_cast<unsigned>(
      std::clamp<uint64_t>(limits.of(GuestLimit::kThreads) / 5, 1, kLaneThreadsMax));
}
static unsigned completion_threads(const protocol::GuestLimits& limits) {
  const uint64_t all = limits.of(GuestLimit::kThreads);
  return static_cast<unsigned>(
      std::clamp<uint64_t>(all - std::min(all, all / 5), 1, kCompletionThreadsMax));
}

// A driver that ends long kernels itself fails one context; ours can only end the session.
static uint64_t watched_ms(uint64_t limit_ms, bool told, Admission* admission) {
  // That driver has been told when the process of several guests began.
  if (told && limit_ms != protocol::kUnlimited && admission->driver_limits_kernels())
    return protocol::kUnlimited;
  const bool by_driver = limit_ms != protocol::kUnlimited && admission->limit_kernels(limit_ms);
  return by_driver ? protocol::kUnlimited : limit_ms;
}

Session::Session(const Config& config, protocol::WorkerChannel* channel, GuestMemory* memory)
    : config_(config),
      channel_(channel),
      memory_(memory),
      admission_(*config.driver, config.turns, config.late_ns,
                 config.neighbours == nullptr ? kAlone : config.place),
      figures_(config.page),
      host_calls_(
          &channel->host_calls(),
          [this] {
            fail(SessionEnd::kMalformed, CUDA_ERROR_UNKNOWN,
                 "the guest has finished functions that it was not given");
          },
          [this] { publish_output(); }),
      watchdog_(config.driver,
                watched_ms(config.limits.of(GuestLimit::kLaunchMs), config.neighbours != nullptr,
                           &admission_),
                [this] {
                  fail(SessionEnd::kDriverFailed, CUDA_ERROR_LAUNCH_TIMEOUT,
                       "a kernel runs for longer than this guest may have it run");
                }),
      lanes_([channel](uint32_t word, bool held) { channel->semaphores().set_held(word, held); },
             lane_threads(config.limits), config.limits.of(GuestLimit::kQueuedBytes)),
      pool_(completion_threads(config.limits)) {
  bound_handles();
  admission_.publish_to(config.page);
  host_memory_.bound(config.limits.of(GuestLimit::kPinnedBytes));
  if (config_.shares == nullptr) config_.shares = &own_shares_;
  if (config.output != nullptr) {
    config.output->set_publish(
        [channel](uint64_t bytes) { channel->semaphores().raise(Semaphore::kOutput, bytes); });
  }
}

// The guest keeps to the limits by itself. One that does not must be ended, but calls of several
// threads may be under way when it reaches one.
void Session::bound_handles() {
  constexpr uint64_t kUnderWay = 256;
  const auto bound = [this](GuestLimit limit) { return 2 * config_.limits.of(limit) + kUnderWay; };
  budget_.max = bound(GuestLimit::kHandles);
  streams_.bound(bound(GuestLimit::kStreams), &budget_);
  events_.bound(bound(GuestLimit::kEvents), &budget_);
  modules_.modules.bound(bound(GuestLimit::kModules), &budget_);
  modules_.libraries.bound(bound(GuestLimit::kModules), &budget_);
  arrays_.arrays.bound(kHandlesMax, &budget_);
  arrays_.mipmapped.bound(kHandlesMax, &budget_);
  physical_.handles.bound(kHandlesMax, &budget_);
}

Session::~Session() {
  watchdog_.stop();
  admission_.end();
  host_calls_.stop();
  lanes_.stop();
  slab_queue_.stop();
  fence_queue_.stop();
  drop_queue_.stop_after_all();  // code and memory go back to the driver
  announcers_.stop();
  pool_.stop();
  page_queue_->stop();
}

bool Session::release_all() {
  abandoning_.store(is_packed(), std::memory_order_relaxed);  // before waits for turns end
  watchdog_.stop();
  admission_.end();
  host_calls_.stop();  // or streams would wait for a guest that is gone
  lanes_.drain();
  lanes_.stop();
  slab_queue_.stop();
  fence_queue_.stop();
  drop_queue_.stop_after_all();  // code and memory go back to the driver
  announcers_.stop();
  pool_.stop();
  slab_streams_.clear();
  slab_sequence_ = 0;
  soon_.clear();
  for (Context& context : contexts_) {
    if (!context.alive()) continue;
    CUresult result = bind(&context);
    const bool bound = result == CUDA_SUCCESS;
    if (bound) result = finish_work(&context);
    if (result == CUDA_ERROR_DEINITIALIZED) return false;
    if (!bound) continue;
    Remains remains = take_from(&context);
    destroy_remains(&remains);
    context.orphans.clear();
    context.own_default.mark.reset();
    if (is_packed()) (void)driver().cuStreamDestroy_v2(context.legacy.handle);
    context.events.release_all(driver());
    context.state = ContextState::kGone;
    if (!context.primary) (void)driver().cuCtxDestroy_v2(context.handle);
  }
  modules_.modules.for_each([&](uint64_t, std::shared_ptr<Module>& module) {
    // Those of other contexts have gone with them.
    if (module->module == nullptr || module->context == nullptr || !module->context->primary)
      return;
    (void)driver().cuCtxSetCurrent(module->context->handle);
    (void)driver().cuModuleUnload(module->module);
  });
  modules_.libraries.for_each([&](uint64_t, std::shared_ptr<Module>& module) {
    module->renewed.clear();
    if (module->library != nullptr) (void)driver().cuLibraryUnload(module->library);
  });
  bound_ = nullptr;
  (void)driver().cuCtxSetCurrent(home());
  physical_.release_all(driver());
  host_calls_.release_all(driver());
  if (is_packed()) host_memory_.release_all(driver());
  return true;
}

CUresult Session::finish_work(Context* context) {
  if (!is_packed()) return driver().cuCtxSynchronize();
  CUresult result = driver().cuStreamSynchronize(context->legacy.handle);
  const auto finish = [&](const Stream& stream) {
    const CUresult each = driver().cuStreamSynchronize(stream.handle);
    if (result == CUDA_SUCCESS) result = each;
  };
  streams_.for_each([&](uint64_t, Stream& each) {
    if (each.context == context) finish(each);
  });
  for (const std::unique_ptr<Stream>* own : {&context->gathering, &context->gate}) {
    if (*own != nullptr) finish(**own);
  }
  for (const MarkRef& mark : context->orphans) (void)driver().cuEventSynchronize(mark->event);
  for (const MarkRef& mark : context->own_default.departed)
    (void)driver().cuEventSynchronize(mark->event);
  return result;
}

void Session::hear_of_fault(CUcontext handle, CUresult result) {
  for (const std::atomic<const Context*>& primary : primaries_) {
    const Context* const context = primary.load(std::memory_order_acquire);
    if (context == nullptr || context->handle != handle || context->faulted.exchange(true))
      continue;
    log(Level::kWarn, "context %u: a neighbour's device fault %s", context->slot,
        result_name(driver(), result).c_str());
    channel_->semaphores().set_sticky(context->slot, result);
  }
}

SessionEnd Session::run() {
  protocol::Consumer& consumer = channel_->consumer();
  back_ahead(0);
  protocol::Record record;
  while (true) {
    const protocol::PeekResult peeked = consumer.peek(&record);
    if (peeked == protocol::PeekResult::kRecord) [[likely]] {
      if (!step(record)) break;
      consumer.release();
      continue;
    }
    if (peeked == protocol::PeekResult::kMalformed) {
      fail(SessionEnd::kMalformed, CUDA_ERROR_UNKNOWN,
           "malformed record: " + consumer.error().text());
      break;
    }
    if (consumer.dead()) break;
    if (!soon_.empty() && poll_soon()) continue;
    idle();
    (void)consumer.wait();
  }
  std::lock_guard lock(failure_mutex_);
  return end_;
}

bool Session::step(const protocol::Record& record) {
  const Record command(record);
  if (!dispatch(*this, command)) return false;
  executed_ = record.sequence;
  if (executed_ - executed_published_ >= kExecutedBatch) {
    // relaxed: only the moment of ending hangs on it; end_ is read under its mutex.
    if (failed_.load(std::memory_order_relaxed)) return false;
    executed_published_ = executed_;
    channel_->semaphores().raise(Semaphore::kExecuted, executed_);
  }
  if (!soon_.empty()) [[unlikely]]
    poll_soon();
  if (slab_bytes_ >= kSlabFlushBytes) flush_slab();
  return true;
}

void Session::idle() {
  if (executed_published_ != executed_) {
    executed_published_ = executed_;
    channel_->semaphores().raise(Semaphore::kExecuted, executed_);
  }
  if (slab_sequence_ != 0) flush_slab();
  for (uint32_t device = 0; device < memory_->devices(); ++device) {
    if (find_device(device) != nullptr) back_ahead(device);  // others are not used
  }
}

void Session::back_ahead(uint32_t device) {
  DeviceMemory& memory = *memory_->on(device);
  if (memory.back_ahead()) channel_->semaphores().raise_credit(device, memory.backed_bytes());
}

// The first failure counts. From a lane's thread the consumer must be woken as well.
void Session::fail(SessionEnd end, CUresult result, std::string reason) {
  {
    std::lock_guard lock(failure_mutex_);
    if (failed_.exchange(true)) return;
    end_ = end;
    reason_ = std::move(reason);
    log(Level::kError, "session ends: %s", reason_.c_str());
  }
  channel_->semaphores().set_state(protocol::SessionState::kFailed, result);
  channel_->mark_dead();
}

bool Session::malformed(const Record& record, const char* what) {
  const char* name = op_name(record.op());
  fail(SessionEnd::kMalformed, CUDA_ERROR_UNKNOWN,
       "malformed record " + std::to_string(record.sequence()) + " (" +
           (name != nullptr ? name : "op " + std::to_string(record.op())) + "): " + what);
  return false;
}

bool Session::refuse(const Record& record, const char* function) {
  log(Level::kWarn, "%s has no %s", is_packed() ? "a packed guest" : "the driver", function);
  return complete(record, CUDA_ERROR_NOT_SUPPORTED, nullptr, 0);
}

bool Session::complete(const Record& record, CUresult result, const void* payload, size_t bytes) {
  if (record.reply() == protocol::kNoReply) return forgotten(record, result);
  noted(result, bound_);
  channel_->replies().complete(
      record.reply(), result,
      std::span<const std::byte>(static_cast<const std::byte*>(payload), bytes));
  return true;
}

bool Session::forgotten(const Record& record, CUresult result) {
  if (result == CUDA_SUCCESS) [[likely]]
    return true;
  failed_call(record.op(), bound_, result);
  return is_sticky(result);
}

void Session::failed_call(uint16_t op, const Context* context, CUresult result) {
  if (is_sticky(noted(result, context))) return;
  const char* name = op_name(op);
  fail(SessionEnd::kDriverFailed, result,
       std::string("the driver refused ") + (name != nullptr ? name : "a command") +
           ", which the guest had accepted: " + result_name(driver(), result));
}

CUresult Session::noted(CUresult result, const Context* context) {
  if (result != CUDA_SUCCESS && is_sticky(result) && context != nullptr &&
      !context->faulted.exchange(true)) [[unlikely]] {
    publish_output();  // why, before the guest sees that
    log(Level::kWarn, "context %u: device fault %s", context->slot,
        result_name(driver(), result).c_str());
    channel_->semaphores().set_sticky(context->slot, result);
    if (is_packed()) config_.neighbours->faulted(this, context->handle, result);
  }
  return result;
}

// --- streams and events ------------------------------------------------------------------------

Stream* Session::find_stream(uint64_t id) {
  if (bound_ == nullptr) return nullptr;
  if (id == kLegacyStream) return &bound_->legacy;
  Stream* found = streams_.find(id);
  return found != nullptr && found->context == bound_ ? found : nullptr;
}

}  // namespace vgpu::server
