// CUDA arrays: opaque, rows without gaps, in device memory of their context.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "api/geometry/array_shape.h"
#include "softgpu/api/context_object.h"

namespace vgpu::softgpu {

// Device memory of an array and all its levels; goes back with the last who uses it, or with its
// context's life.
class ArrayStorage {
 public:
  // nullptr when there is no memory.
  static std::shared_ptr<ArrayStorage> make(Context* context, uint64_t bytes);
  ~ArrayStorage();
  ArrayStorage(const ArrayStorage&) = delete;
  ArrayStorage& operator=(const ArrayStorage&) = delete;

  uint64_t address() const { return address_; }
  bool belongs_to(const Context& context) const;

 private:
  ArrayStorage(Context* context, uint64_t address);
  Context* const context_;
  const uint32_t life_;  // of the context
  const uint64_t address_;
};

// Immutable.
struct Array {
  std::shared_ptr<ArrayStorage> storage;
  ArrayShape shape;
  uint64_t data = 0;          // address of the first texel
  bool of_mipmapped = false;  // a level: ends with its mipmapped array

  uint64_t pitch() const { return shape.extent(0).width * shape.texel_bytes(); }
  uint64_t slice() const { return pitch() * shape.extent(0).height; }
};

struct MipmappedArray {
  std::shared_ptr<ArrayStorage> storage;
  ArrayShape shape;
  std::vector<CUarray> levels;
};

// The array that `handle` means in `context`; nullptr: none, or another context's.
std::shared_ptr<Array> find_array(Context& context, CUarray handle);
std::shared_ptr<MipmappedArray> find_mipmapped(Context& context, CUmipmappedArray handle);

// CUDA_ERROR_OUT_OF_MEMORY when there is no room; the handle is new.
CUresult create_array(Context* context, const ArrayShape& shape, CUarray* handle);
CUresult create_mipmapped(Context* context, const ArrayShape& shape, CUmipmappedArray* handle);
void destroy_mipmapped(const MipmappedArray& array, CUmipmappedArray handle);

// Ends the handles of a context that closes.
void forget_arrays(const Context& context);

}  // namespace vgpu::softgpu
