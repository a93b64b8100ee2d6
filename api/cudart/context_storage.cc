// Values that libcudart keeps per context.
// SPDX-License-Identifier: Apache-2.0
#include "api/cudart/context_storage.h"

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "api/cudart/host.h"

namespace vgpu::cudart {
namespace {

struct Entry {
  CUcontext context;
  void* key;
  void* value;
  StorageDestructor destructor;
};

struct Storage {
  std::mutex mutex;
  std::vector<Entry> entries;
  // Counts changes. Written with release under the mutex, read with acquire by storage_get: equal
  // to what a thread remembers means that its remembered entry still holds.
  std::atomic<uint64_t> generation{1};
};

// Never destroyed: calls arrive after static destructors ran.
Storage& storage() {
  static Storage* const s = new Storage;
  return *s;
}

struct Remembered {
  uint64_t generation = 0;
  CUcontext context = nullptr;
  void* key = nullptr;
  void* value = nullptr;
};
thread_local Remembered remembered;

CUresult resolve(CUcontext* context) {
  if (*context != nullptr && *context != reinterpret_cast<CUcontext>(-1)) return CUDA_SUCCESS;
  CUresult result = host().current_context(context);
  if (result != CUDA_SUCCESS) return result;
  return *context == nullptr ? CUDA_ERROR_INVALID_CONTEXT : CUDA_SUCCESS;
}

// Caller holds the mutex. end() when there is none.
std::vector<Entry>::iterator find(std::vector<Entry>& entries, CUcontext context, void* key) {
  auto it = entries.begin();
  while (it != entries.end() && !(it->context == context && it->key == key)) ++it;
  return it;
}

}  // namespace

CUresult storage_put(CUcontext context, void* key, void* value, StorageDestructor destructor) {
  if (CUresult r = resolve(&context); r != CUDA_SUCCESS) return r;
  Storage& s = storage();
  std::lock_guard lock(s.mutex);
  auto it = find(s.entries, context, key);
  if (it != s.entries.end()) s.entries.erase(it);
  s.entries.push_back({context, key, value, destructor});
  s.generation.fetch_add(1, std::memory_order_release);
  return CUDA_SUCCESS;
}

CUresult storage_remove(CUcontext context, void* key) {
  if (CUresult r = resolve(&context); r != CUDA_SUCCESS) return r;
  Storage& s = storage();
  std::lock_guard lock(s.mutex);
  auto it = find(s.entries, context, key);
  if (it != s.entries.end()) s.entries.erase(it);
  s.generation.fetch_add(1, std::memory_order_release);
  return CUDA_SUCCESS;
}

CUresult storage_get(void** value, CUcontext context, void* key) {
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult r = resolve(&context); r != CUDA_SUCCESS) return r;
  Storage& s = storage();
  const uint64_t generation = s.generation.load(std::memory_order_acquire);
  if (remembered.generation != generation || remembered.context != context ||
      remembered.key != key) {
    std::lock_guard lock(s.mutex);
    auto it = find(s.entries, context, key);
    if (it == s.entries.end()) return CUDA_ERROR_INVALID_HANDLE;
    remembered = {s.generation.load(std::memory_order_relaxed), context, key, it->value};
  }
  *value = remembered.value;
  return CUDA_SUCCESS;
}

void run_context_destructors(CUcontext context) {
  Storage& s = storage();
  std::vector<Entry> gone;
  {
    std::lock_guard lock(s.mutex);
    std::vector<Entry> kept;
    for (const Entry& e : s.entries) (e.context == context ? gone : kept).push_back(e);
    if (gone.empty()) return;
    s.entries.swap(kept);
    s.generation.fetch_add(1, std::memory_order_release);
  }
  for (auto it = gone.rbegin(); it != gone.rend(); ++it) {
    if (it->destructor != nullptr) it->destructor(it->context, it->key, it->value);
  }
}

}  // namespace vgpu::cudart
