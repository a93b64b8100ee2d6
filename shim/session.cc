// One attachment to a server.
// SPDX-License-Identifier: Apache-2.0
#include "shim/session.h"

#include <algorithm>

#include "shim/memory/address_claim.h"

namespace vgpu::shim {
namespace {

DeviceMemory::Options memory_options(const protocol::HelloReply& hello) {
  DeviceMemory::Options options;
  options.grant = hello.memory_bytes;
  options.base = hello.device_range.base;
  options.bytes = hello.device_range.bytes / 2;  // the rest is the application's to reserve
  switch (hello.allocator) {
    case protocol::AllocatorMode::kReserved:
      options.mode = MemoryMode::kMapped;
      break;
    case protocol::AllocatorMode::kSlabs:
      options.mode = MemoryMode::kLent;
      break;
    case protocol::AllocatorMode::kForward:
      options.mode = MemoryMode::kForwarded;
      break;
  }
  return options;
}

}  // namespace

Session::Session(protocol::HelloReply reply, std::unique_ptr<protocol::GuestChannel> channel)
    : hello_(std::move(reply)),
      channel_(std::move(channel)),
      host_memory_(hello_.host_range.base, hello_.host_range.bytes != 0),
      memory_(std::make_unique<DeviceMemory>(*this, memory_options(hello_))),
      virtual_memory_(hello_.device_range.base + hello_.device_range.bytes / 2,
                      hello_.device_range.bytes / 2) {
  memory_->look_also_in(&virtual_memory_);
}

Status Session::open() {
  VGPU_RETURN_IF_ERROR(memory_->open());
  for (size_t i = 0; i < hello_.devices.size(); ++i) {
    Context* primary = contexts_.add_primary(static_cast<CUdevice>(i));
    if (primary == nullptr) return Status(StatusCode::kResourceExhausted, "no memory for contexts");
    wire::PrimaryRetainArgs args;
    args.context = primary->id;
    args.device = static_cast<uint32_t>(i);
    args.slot = primary->slot;
    post(nullptr, Op::kPrimaryRetain, args);
  }
  return ok_status();
}

CUresult Session::lost() const {
  if (ended_.load(std::memory_order_relaxed)) return CUDA_ERROR_DEINITIALIZED;
  if (channel_->usable()) return CUDA_ERROR_INVALID_HANDLE;  // destroyed meanwhile: all_there
  if (!channel_->dead()) {
    const auto error =
        static_cast<CUresult>(const_cast<Session*>(this)->channel_->semaphores().session_error());
    if (error != CUDA_SUCCESS) return error;
  }
  return CUDA_ERROR_DEVICE_UNAVAILABLE;
}

CUresult Session::finish(uint32_t slot, protocol::Reply* reply) {
  if (channel_->replies().wait(slot, reply) != protocol::WaitResult::kReady) return lost();
  channel_->replies().release(slot);
  return static_cast<CUresult>(reply->result);
}

bool Session::bind(Context* context) {
  if (context == nullptr) return true;
  if (!context->primary && !context->active.load(std::memory_order_relaxed)) [[unlikely]]
    return false;  // destroyed by another thread
  if (bound_ == context->id) [[likely]]
    return true;
  wire::ContextBindArgs args;
  args.context = context->id;
  if (protocol::write_record(&channel_->producer(), static_cast<uint16_t>(Op::kContextBind),
                             args) == 0)
    return false;
  stats_.record(Op::kContextBind, false);
  bound_ = context->id;
  return true;
}

void Session::note_work(Context* context, const StreamRef& stream, uint64_t number) {
  // relaxed: these only rise, and whoever reads an older value at worst asks the worker.
  progress_.submitted.store(number, std::memory_order_relaxed);
  context->progress.submitted.store(number, std::memory_order_relaxed);
  if (stream.stream == nullptr) {
    context->legacy.submitted.store(number, std::memory_order_relaxed);
    context->legacy_own.store(number, std::memory_order_relaxed);
    return;
  }
  stream.stream->progress.submitted.store(number, std::memory_order_relaxed);
  if ((stream.stream->flags & CU_STREAM_NON_BLOCKING) == 0) {
    context->legacy.submitted.store(number, std::memory_order_relaxed);
  }
}

void Session::note_context_work(Context* context, uint64_t number) {
  progress_.submitted.store(number, std::memory_order_relaxed);  // relaxed: as above
  context->progress.submitted.store(number, std::memory_order_relaxed);
}

void Session::note_work_everywhere(Context* context, uint64_t number) {
  note_work(context, StreamRef(), number);
  context->gate.store(number, std::memory_order_relaxed);
  std::lock_guard lock(objects);
  streams.for_each([&](uint64_t, Stream& stream) {
    if (stream.context == context) stream.progress.submitted.store(number);
  });
}

void Session::note_context_done(Context* context, uint64_t number) {
  Progress::raise(context->progress.completed, number);
  Progress::raise(context->legacy.completed, number);
  if (contexts_.active_count() <= 1) Progress::raise(progress_.completed, number);
}

uint64_t Session::credit() {
  return channel_->semaphores().value(protocol::Semaphore::kBackedCredit);
}

CUresult Session::request_credit(uint64_t total) {
  if (credit() >= total) return CUDA_SUCCESS;
  // Asked for is what must be ready beyond what is mapped: the records of mappings go ahead of this
  // one.
  const uint64_t mapped = mapped_.load(std::memory_order_relaxed);
  wire::MemCreditArgs args;
  args.bytes = total - std::min(total, mapped);
  wire::MemCreditReply answer;
  const CUresult result = ask(nullptr, Op::kMemCredit, args, &answer);
  if (result != CUDA_SUCCESS) return result;
  // Another thread may have taken some of it meanwhile; the caller then asks again.
  const bool raced = mapped != mapped_.load(std::memory_order_relaxed);
  return credit() >= total || raced ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

void Session::map(uint64_t address, uint64_t bytes) {
  wire::MemMapArgs args;
  args.address = address;
  args.bytes = bytes;
  mapped_.fetch_add(bytes, std::memory_order_relaxed);  // relaxed: the allocator's lock orders it
  post(nullptr, Op::kMemMap, args);
}

CUresult Session::unmap(uint64_t address, uint64_t bytes) {
  wire::MemReleaseArgs args;
  args.address = address;
  args.bytes = bytes;
  return call(nullptr, Op::kMemRelease, args);
}

void Session::return_credit(uint64_t bytes) {
  wire::CreditReturnArgs args;
  args.bytes = bytes;
  mapped_.fetch_add(bytes, std::memory_order_relaxed);  // relaxed: the allocator's lock orders it
  post(nullptr, Op::kCreditReturn, args);
}

// The driver placed the slab in the worker's address space; here something of the application's may
// lie at the same addresses. Such a slab is no use: a pointer would have two meanings. It is kept
// until another is found, or the driver would offer it again.
CUresult Session::lend(uint64_t bytes, uint64_t* address, uint64_t* lent) {
  constexpr int kOffersMax = 4;
  uint64_t refused[kOffersMax];
  int refusals = 0;
  CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
  while (refusals < kOffersMax) {
    wire::SlabLendArgs args;
    args.bytes = bytes;
    wire::SlabLendReply answer;
    result = ask(nullptr, Op::kSlabLend, args, &answer);
    *address = answer.address;
    *lent = answer.bytes;
    if (result != CUDA_SUCCESS || channel_->transport().same_address_space() ||
        claim_addresses(answer.address, answer.bytes)) {
      break;
    }
    refused[refusals++] = answer.address;
    result = CUDA_ERROR_OUT_OF_MEMORY;
  }
  for (int i = 0; i < refusals; ++i) (void)release(refused[i], true);
  return result;
}

void Session::finish_releases() {
  (void)call(nullptr, Op::kMemFreeForward, wire::MemFreeForwardArgs());
}

CUresult Session::take_back(uint64_t address, uint64_t lent) {
  const CUresult result = release(address, true);
  if (!channel_->transport().same_address_space()) release_addresses(address, lent);
  return result;
}

CUresult Session::allocate(uint64_t bytes, uint64_t* address) {
  wire::MemAllocForwardArgs args;
  args.bytes = bytes;
  wire::MemAllocForwardReply answer;
  const CUresult result = ask(nullptr, Op::kMemAllocForward, args, &answer);
  *address = answer.address;
  return result;
}

CUresult Session::release(uint64_t address, bool waits) {
  wire::MemFreeForwardArgs args;
  args.address = address;
  if (!waits) return post(nullptr, Op::kMemFreeForward, args) != 0 ? CUDA_SUCCESS : lost();
  return call(nullptr, Op::kMemFreeForward, args);
}

void Session::unshare(uint64_t id) {
  std::lock_guard lock(shared_.mutex);
  const auto found = shared_.names.find(id);
  if (found == shared_.names.end()) return;
  wire::MemUnshareArgs args;
  args.secret_low = found->second.secret_low;
  args.secret_high = found->second.secret_high;
  shared_.names.erase(found);
  post(nullptr, Op::kMemUnshare, args);
}

bool Session::idle() {
  const uint64_t submitted = progress_.submitted.load(std::memory_order_relaxed);
  return submitted <= progress_.completed.load(std::memory_order_relaxed) || submitted <= retired();
}

uint64_t Session::fence() { return post(nullptr, Op::kFreeFence, wire::FreeFenceArgs()); }

uint64_t Session::retired() {
  return channel_->semaphores().value(protocol::Semaphore::kFreeRetired);
}

bool Session::wait_retired(uint64_t number) {
  if (number == 0) return false;
  return channel_->semaphores().wait(protocol::Semaphore::kFreeRetired, number) ==
         protocol::WaitResult::kReady;
}

}  // namespace vgpu::shim
