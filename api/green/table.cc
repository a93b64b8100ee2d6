// Handles of green contexts: of a kind of their own, so that any other call can tell them.
// SPDX-License-Identifier: Apache-2.0
#include "api/green/table.h"

#include "base/slot_map.h"

namespace vgpu::green {
namespace {

// Tags that no other handle has (softgpu/api/handles.h, shim/objects.h).
constexpr uint64_t kGreenTag = 100, kViewTag = 101;

uint64_t id_of(uint64_t tag, uint64_t index) {
  return SlotId::make(tag, 1, index) | g_minting_owner;
}

Green* find_at(uint64_t id, uint64_t tag) {
  const uint64_t index = SlotId::index(id);
  if (id != id_of(tag, index)) return nullptr;
  std::lock_guard lock(table().mutex);
  return index < table().all.size() ? &table().all[index] : nullptr;
}

}  // namespace

Table& table() {
  static Table* const made = new Table();
  return *made;
}

Green* make_entry(CUdevice device, CUcontext primary) {
  static std::atomic<uint64_t> next_id{uint64_t{1} << 40};  // apart from those of contexts
  std::lock_guard lock(table().mutex);
  const uint64_t index = table().all.size();
  if (index > SlotId::kIndexMax) return nullptr;
  Green& green = table().all.emplace_back();
  green.handle = reinterpret_cast<CUgreenCtx>(id_of(kGreenTag, index));
  green.view = reinterpret_cast<CUcontext>(id_of(kViewTag, index));
  green.primary = primary;
  green.device = device;
  green.unique_id = next_id.fetch_add(1, std::memory_order_relaxed);
  return &green;
}

Green* find(CUgreenCtx handle) { return find_at(reinterpret_cast<uint64_t>(handle), kGreenTag); }

Green* find_view(CUcontext handle) {
  if (!any.load(std::memory_order_relaxed)) [[likely]]
    return nullptr;
  return find_at(reinterpret_cast<uint64_t>(handle), kViewTag);
}

CUcontext base_of(CUcontext handle) {
  const Green* green = find_view(handle);
  if (green == nullptr) [[likely]]
    return handle;
  return green->alive.load(std::memory_order_acquire) ? green->primary : nullptr;
}

}  // namespace vgpu::green
