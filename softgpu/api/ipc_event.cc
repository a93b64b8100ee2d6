// Events of other processes, by handles that say where their page is.
// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>
#include <cudaProfiler.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "driver_functions.h"
#include "softgpu/api/driver.h"
#include "softgpu/api/peer_event.h"

namespace vgpu::softgpu {
namespace {

constexpr uint64_t kPageBytes = 4096;
constexpr int64_t kLookNs = 20'000'000;  // between looks whether the other process is there

uint32_t self() { return static_cast<uint32_t>(::getpid()); }

std::unique_ptr<Command> finishing(const Event& event, uint32_t number) {
  auto command = std::make_unique<Command>();
  command->kind = CommandKind::kCopy;
  command->always = true;  // others wait for it, whatever becomes of this context
  command->work = [peer = event.peer, number] { peer->page().finish(number); };
  return command;
}

std::unique_ptr<Command> watching(const Event& event, uint32_t number) {
  auto command = std::make_unique<Command>();
  command->kind = CommandKind::kWatch;
  command->ready = [peer = event.peer, number] { return peer->passed(number); };
  return command;
}

// What stands in no stream of the program's has a queue for itself.
void submit_beside(Context& context, std::unique_ptr<Command> command) {
  GridManagement& management = context.device().management();
  const std::shared_ptr<Channel> channel = context.channel();
  const std::shared_ptr<StreamQueue> queue =
      management.open_queue(channel.get(), false, false, kPriorityLeast);
  management.submit(queue, std::move(command));
  management.close_queue(queue);
}

}  // namespace

bool PeerEvent::map(UniqueFd file) {
  if (!file.valid() || shared_pages_bytes(file.get(), &secret_) != kPageBytes) return false;
  Result<Mapping> mapping = Mapping::map_shared(file.get(), kPageBytes);
  if (!mapping.ok()) return false;
  mapping_ = std::move(mapping).value();
  file_ = std::move(file);
  return true;
}

std::shared_ptr<PeerEvent> PeerEvent::create() {
  Result<UniqueFd> file = make_shared_pages(kPageBytes);
  auto event = std::make_shared<PeerEvent>();
  if (!file.ok() || !event->map(std::move(file).value())) return nullptr;
  event->page().magic = EventPage::kMagic;
  return event;
}

std::shared_ptr<PeerEvent> PeerEvent::open(int file, const PagesSecret& secret) {
  auto event = std::make_shared<PeerEvent>();
  const bool mapped = event->map(UniqueFd(file));
  const bool meant = mapped && event->secret_ == secret && event->page().magic == EventPage::kMagic;
  return meant ? event : nullptr;
}

bool PeerEvent::passed(uint32_t number) const {
  if (page().passed(number)) return true;
  const uint32_t who = page().recorder.load(std::memory_order_acquire);
  if (::kill(static_cast<pid_t>(who), 0) == 0 || errno != ESRCH) return false;
  page().gone(who);
  return page().passed(number);
}

void announce(const Event& event, Context& context, Stream& stream, bool at_once) {
  const uint32_t number = event.peer->page().begin(self());
  if (at_once) {
    event.peer->page().finish(number);
    return;
  }
  context.device().management().submit(stream.queue, finishing(event, number));
}

void announce(const Event& event, Context& context, const std::shared_ptr<EventPoint>& point) {
  std::unique_ptr<Command> command = finishing(event, event.peer->page().begin(self()));
  command->waits.push_back(point);
  submit_beside(context, std::move(command));
}

std::shared_ptr<EventPoint> newest_record(const Event& event, Context& context) {
  const uint32_t number = event.peer->page().newest();
  if (event.peer->passed(number)) return nullptr;
  std::unique_ptr<Command> command = watching(event, number);
  auto point = std::make_shared<EventPoint>();
  command->record = point;
  submit_beside(context, std::move(command));
  return point;
}

void wait_in_stream(const Event& event, Stream& stream) {
  const uint32_t number = event.peer->page().newest();
  if (event.peer->page().passed(number)) return;
  stream.context->device().management().submit(stream.queue, watching(event, number));
}

void wait_here(const Event& event) {
  const uint32_t number = event.peer->page().newest();
  while (!event.peer->passed(number)) (void)event.peer->page().wait(number, kLookNs);
}

}  // namespace vgpu::softgpu

namespace vgpu::driver {
namespace {

using softgpu::Context;
using softgpu::Driver;
using softgpu::enter;
using softgpu::Event;
using softgpu::PeerEvent;

struct EventHandle {
  static constexpr uint64_t kMagic = 0x5645'4950'4756'0001;
  uint64_t magic = kMagic;
  int32_t process = 0;
  int32_t file = -1;
  softgpu::PagesSecret secret;
};
static_assert(sizeof(EventHandle) <= sizeof(CUipcEventHandle));

}  // namespace

CUresult cuIpcGetEventHandle(CUipcEventHandle* out, CUevent handle) {
  Context* context = nullptr;
  if (const CUresult result = enter(&context); result != CUDA_SUCCESS) return result;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const std::shared_ptr<Event> event = Driver::instance().events.find(handle);
  if (event == nullptr || (event->flags & CU_EVENT_INTERPROCESS) == 0)
    return CUDA_ERROR_INVALID_HANDLE;
  const EventHandle found{EventHandle::kMagic, static_cast<int32_t>(::getpid()),
                          event->peer->file(), event->peer->secret()};
  *out = {};
  std::memcpy(out, &found, sizeof(found));
  return CUDA_SUCCESS;
}

CUresult cuIpcOpenEventHandle(CUevent* out, CUipcEventHandle bytes) {
  Context* context = nullptr;
  if (const CUresult result = enter(&context); result != CUDA_SUCCESS) return result;
  EventHandle handle;
  std::memcpy(static_cast<void*>(&handle), &bytes, sizeof(handle));
  if (out == nullptr || handle.magic != EventHandle::kMagic) return CUDA_ERROR_INVALID_VALUE;
  if (handle.process == ::getpid()) return CUDA_ERROR_INVALID_CONTEXT;  // as natively
  const std::string path =
      "/proc/" + std::to_string(handle.process) + "/fd/" + std::to_string(handle.file);
  auto event = std::make_shared<Event>();
  event->peer = PeerEvent::open(::open(path.c_str(), O_RDWR | O_CLOEXEC), handle.secret);
  if (event->peer == nullptr) return CUDA_ERROR_INVALID_VALUE;
  event->context = context;
  event->channel = context->channel();
  event->flags = CU_EVENT_DISABLE_TIMING;
  *out = Driver::instance().events.insert(std::move(event));
  return *out == nullptr ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

}  // namespace vgpu::driver
