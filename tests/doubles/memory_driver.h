// What the files of the memory double share.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_TESTS_DOUBLES_MEMORY_DRIVER_H_
#define VGPU_TESTS_DOUBLES_MEMORY_DRIVER_H_

#include <cuda.h>

#include <cstddef>
#include <mutex>
#include <set>

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace vgpu::testing {

inline void* pointer(CUdeviceptr address) { return reinterpret_cast<void*>(address); }

// As a driver's, objects go with their context when nobody destroys them: none is a leak.
template <typename T>
class Kept {
 public:
  static T* make() {
    std::lock_guard lock(mutex_);
    return *all().insert(new T).first;
  }
  template <typename Handle>
  static CUresult destroy(Handle handle) {
    std::lock_guard lock(mutex_);
    auto* object = reinterpret_cast<T*>(handle);
    all().erase(object);
    delete object;
    return CUDA_SUCCESS;
  }

 private:
  static std::set<T*>& all() {
    static auto* const objects = new std::set<T*>;
    return *objects;
  }
  static inline std::mutex mutex_;
};

// Work, done at once. Widths of copies in bytes, of fills in elements.
CUresult copy_box(const CUDA_MEMCPY3D& copy);
CUresult fill_box(CUdeviceptr to, size_t pitch, unsigned value, unsigned element, size_t width,
                  size_t height);

}  // namespace vgpu::testing

#endif  // VGPU_TESTS_DOUBLES_MEMORY_DRIVER_H_
