// One of the guest's devices, and what its allocator asks of the channel.
// SPDX-License-Identifier: Apache-2.0
#include "shim/guest_device.h"

#include <algorithm>

#include "shim/memory/address_claim.h"
#include "shim/session.h"

namespace vgpu::shim {
namespace {

DeviceMemory::Options memory_options(const protocol::HelloReply& hello, uint32_t number) {
  DeviceMemory::Options options;
  const protocol::AddressRange range =
      protocol::range_of_device(hello.device_range, number, hello.devices.size());
  options.device = static_cast<int>(number);
  options.grant = hello.devices[number].memory_bytes;
  options.base = range.base;
  options.bytes = range.bytes;
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

GuestDevice::GuestDevice(Session& session, const protocol::HelloReply& hello, uint32_t number)
    : session_(session),
      number_(number),
      open_(number == 0),
      memory_(*this, memory_options(hello, number)) {}

CUresult GuestDevice::open() {
  if (open_) return CUDA_SUCCESS;
  wire::DeviceOpenArgs args;
  args.device = number_;
  const CUresult result = session_.call(nullptr, Op::kDeviceOpen, args);
  open_ = result == CUDA_SUCCESS;
  return result;
}

CUresult GuestDevice::share(uint32_t peer, bool on) {
  wire::MemAccessArgs args;
  args.device = number_;
  args.peer = peer;
  args.enable = on ? 1 : 0;
  return session_.call(nullptr, Op::kMemAccess, args);
}

uint64_t GuestDevice::credit() { return session_.channel().semaphores().credit(number_); }

CUresult GuestDevice::request_credit(uint64_t total) {
  if (credit() >= total) return CUDA_SUCCESS;
  // Asked for is what must be ready beyond what is mapped: the records of mappings go ahead of this
  // one.
  const uint64_t mapped = mapped_.load(std::memory_order_relaxed);
  wire::MemCreditArgs args;
  args.bytes = total - std::min(total, mapped);
  args.device = number_;
  wire::MemCreditReply answer;
  CUresult result = session_.ask(nullptr, Op::kMemCredit, args, &answer);
  if (result != CUDA_SUCCESS) return result;
  if (credit() < total && finish_unloads())
    result = session_.ask(nullptr, Op::kMemCredit, args, &answer);
  if (result != CUDA_SUCCESS) return result;
  // Another thread may have taken some of it meanwhile; the caller then asks again.
  const bool raced = mapped != mapped_.load(std::memory_order_relaxed);
  return credit() >= total || raced ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

void GuestDevice::map(uint64_t address, uint64_t bytes) {
  wire::MemMapArgs args;
  args.address = address;
  args.bytes = bytes;
  args.device = number_;
  mapped_.fetch_add(bytes, std::memory_order_relaxed);  // relaxed: the allocator's lock orders it
  session_.post(nullptr, Op::kMemMap, args);
}

CUresult GuestDevice::unmap(uint64_t address, uint64_t bytes) {
  wire::MemReleaseArgs args;
  args.address = address;
  args.bytes = bytes;
  args.device = number_;
  return session_.call(nullptr, Op::kMemRelease, args);
}

void GuestDevice::return_credit(uint64_t bytes) {
  wire::CreditReturnArgs args;
  args.bytes = bytes;
  args.device = number_;
  mapped_.fetch_add(bytes, std::memory_order_relaxed);  // relaxed: the allocator's lock orders it
  session_.post(nullptr, Op::kCreditReturn, args);
}

// The driver placed the slab in the worker's address space; here something of the application's may
// lie at the same addresses. Such a slab is no use: a pointer would have two meanings. It is kept
// until another is found, or the driver would offer it again.
CUresult GuestDevice::lend(uint64_t bytes, uint64_t* address, uint64_t* lent) {
  constexpr int kOffersMax = 4;
  uint64_t refused[kOffersMax];
  int refusals = 0;
  CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
  while (refusals < kOffersMax) {
    wire::SlabLendArgs args;
    args.bytes = bytes;
    args.device = number_;
    wire::SlabLendReply answer;
    result = session_.ask(nullptr, Op::kSlabLend, args, &answer);
    if (result == CUDA_ERROR_OUT_OF_MEMORY && finish_unloads())
      result = session_.ask(nullptr, Op::kSlabLend, args, &answer);
    *address = answer.address;
    *lent = answer.bytes;
    if (result != CUDA_SUCCESS || session_.channel().transport().same_address_space() ||
        claim_addresses(answer.address, answer.bytes)) {
      break;
    }
    refused[refusals++] = answer.address;
    result = CUDA_ERROR_OUT_OF_MEMORY;
  }
  for (int i = 0; i < refusals; ++i) (void)release(refused[i], true);
  return result;
}

CUresult GuestDevice::take_back(uint64_t address, uint64_t lent) {
  const CUresult result = release(address, true);
  if (!session_.channel().transport().same_address_space()) release_addresses(address, lent);
  return result;
}

CUresult GuestDevice::allocate(uint64_t bytes, uint64_t* address) {
  wire::MemAllocForwardArgs args;
  args.bytes = bytes;
  args.device = number_;
  wire::MemAllocForwardReply answer;
  CUresult result = session_.ask(nullptr, Op::kMemAllocForward, args, &answer);
  if (result == CUDA_ERROR_OUT_OF_MEMORY && finish_unloads())
    result = session_.ask(nullptr, Op::kMemAllocForward, args, &answer);
  *address = answer.address;
  return result;
}

CUresult GuestDevice::release(uint64_t address, bool waits) {
  wire::MemFreeForwardArgs args;
  args.address = address;
  args.device = number_;
  if (waits) return session_.call(nullptr, Op::kMemFreeForward, args);
  return session_.post(nullptr, Op::kMemFreeForward, args) != 0 ? CUDA_SUCCESS : session_.lost();
}

void GuestDevice::finish_releases() {
  (void)session_.call(nullptr, Op::kMemFreeForward, wire::MemFreeForwardArgs());
}

bool GuestDevice::finish_unloads() {
  const uint64_t posted = session_.unloads.load(std::memory_order_relaxed);
  uint64_t through = session_.unloaded.load(std::memory_order_relaxed);
  if (through >= posted) return false;
  finish_releases();  // each thread that needs the memory waits for it
  while (through < posted && !session_.unloaded.compare_exchange_weak(through, posted)) continue;
  return true;
}

void GuestDevice::forget_name(uint64_t id) {
  SharedMemory& shared = session_.shared();
  std::lock_guard lock(shared.mutex);
  const auto found = shared.names.find(id);
  if (found == shared.names.end()) return;
  wire::MemUnshareArgs args;
  args.secret_low = found->second.secret_low;
  args.secret_high = found->second.secret_high;
  shared.names.erase(found);
  session_.post(nullptr, Op::kMemUnshare, args);
}

void GuestDevice::refused() {
  wire::MemRefusedArgs args;
  args.device = number_;
  session_.post(nullptr, Op::kMemRefused, args);
}

bool GuestDevice::idle() {
  const uint64_t submitted = session_.progress().submitted.load(std::memory_order_relaxed);
  return submitted <= session_.progress().completed.load(std::memory_order_relaxed) ||
         submitted <= retired();
}

uint64_t GuestDevice::quota(uint64_t granted) {
  const uint64_t changed = session_.channel().semaphores().quota(number_);
  return changed != 0 ? changed : granted;
}

uint64_t GuestDevice::used_beside() {
  const auto device = static_cast<CUdevice>(number_);
  return session_.arrays().bytes(device) + session_.virtual_memory().created(device) +
         variables_.load(std::memory_order_relaxed);
}

uint64_t GuestDevice::fence() {
  return session_.post(nullptr, Op::kFreeFence, wire::FreeFenceArgs());
}

uint64_t GuestDevice::retired() { return session_.retired(); }

bool GuestDevice::wait_retired(uint64_t number) {
  if (number == 0) return false;
  return session_.channel().semaphores().wait(protocol::Semaphore::kFreeRetired, number) ==
         protocol::WaitResult::kReady;
}

bool GuestMemory::find(uint64_t address, Allocation* allocation) {
  return std::any_of(devices_.begin(), devices_.end(),
                     [&](GuestDevice& each) { return each.memory().find(address, allocation); });
}

CUresult GuestMemory::free(uint64_t address, bool waits) {
  CUresult result = CUDA_ERROR_INVALID_VALUE;
  for (GuestDevice& each : devices_) {
    result = each.memory().free(address, waits);
    if (result != CUDA_ERROR_INVALID_VALUE) break;
  }
  return result;
}

void GuestMemory::free_all_of(uint64_t context) {
  for (GuestDevice& each : devices_) each.memory().free_all_of(context);
}

void GuestMemory::remove_foreign(uint64_t address) {
  for (GuestDevice& each : devices_) each.memory().remove_foreign(address);
}

CUresult GuestMemory::share(uint64_t address, Allocation* allocation, bool pooled) {
  CUresult result = CUDA_ERROR_INVALID_VALUE;
  for (GuestDevice& each : devices_) {
    result = each.memory().share(address, allocation, pooled);
    if (result != CUDA_ERROR_INVALID_VALUE) break;
  }
  return result;
}

bool GuestMemory::can_share(uint64_t address) {
  return std::any_of(devices_.begin(), devices_.end(),
                     [&](GuestDevice& each) { return each.memory().can_share(address); });
}

int GuestMemory::device_of(uint64_t address) {
  Allocation allocation;
  return find(address, &allocation) ? allocation.device : -1;
}

}  // namespace vgpu::shim
