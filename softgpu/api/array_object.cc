// Life of arrays.
// SPDX-License-Identifier: Apache-2.0
#include "softgpu/api/array_object.h"

#include <utility>

#include "softgpu/api/driver.h"

namespace vgpu::softgpu {

ArrayStorage::ArrayStorage(Context* context, uint64_t address)
    : context_(context), life_(context->life.load()), address_(address) {}

std::shared_ptr<ArrayStorage> ArrayStorage::make(Context* context, uint64_t bytes) {
  const uint64_t address = context->allocate(bytes, MemoryKind::kArray);
  if (address == 0) return nullptr;
  return std::shared_ptr<ArrayStorage>(new ArrayStorage(context, address));
}

// A context that has closed gave its memory back already.
ArrayStorage::~ArrayStorage() {
  if (context_->alive() && context_->life.load() == life_)
    context_->device().memory().free(address_);
}

bool ArrayStorage::belongs_to(const Context& context) const {
  return context_ == &context && context.life.load() == life_;
}

std::shared_ptr<Array> find_array(Context& context, CUarray handle) {
  std::shared_ptr<Array> array = Driver::instance().arrays.find(handle);
  return array != nullptr && array->storage->belongs_to(context) ? array : nullptr;
}

std::shared_ptr<MipmappedArray> find_mipmapped(Context& context, CUmipmappedArray handle) {
  std::shared_ptr<MipmappedArray> array = Driver::instance().mipmapped_arrays.find(handle);
  return array != nullptr && array->storage->belongs_to(context) ? array : nullptr;
}

CUresult create_array(Context* context, const ArrayShape& shape, CUarray* handle) {
  auto array = std::make_shared<Array>();
  array->storage = ArrayStorage::make(context, shape.bytes());
  if (array->storage == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  array->shape = shape;
  array->data = array->storage->address();
  *handle = Driver::instance().arrays.insert(std::move(array));
  return *handle != nullptr ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult create_mipmapped(Context* context, const ArrayShape& shape, CUmipmappedArray* handle) {
  auto mipmapped = std::make_shared<MipmappedArray>();
  mipmapped->storage = ArrayStorage::make(context, shape.bytes());
  if (mipmapped->storage == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  mipmapped->shape = shape;
  Driver& driver = Driver::instance();
  for (uint32_t level = 0; level < shape.levels; ++level) {
    auto array = std::make_shared<Array>();
    array->storage = mipmapped->storage;
    array->shape = shape.of_level(level);
    array->data = mipmapped->storage->address() + shape.level_offset(level);
    array->of_mipmapped = true;
    mipmapped->levels.push_back(driver.arrays.insert(std::move(array)));
  }
  *handle = driver.mipmapped_arrays.insert(mipmapped);
  const bool complete = *handle != nullptr && mipmapped->levels.back() != nullptr;
  if (!complete) destroy_mipmapped(*mipmapped, *handle);
  return complete ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

void destroy_mipmapped(const MipmappedArray& array, CUmipmappedArray handle) {
  Driver& driver = Driver::instance();
  for (CUarray level : array.levels) driver.arrays.remove(level);
  driver.mipmapped_arrays.remove(handle);
}

void forget_arrays(const Context& context) {
  Driver& driver = Driver::instance();
  const auto ours = [&context](const auto& array) { return array.storage->belongs_to(context); };
  driver.arrays.remove_if(ours);
  driver.mipmapped_arrays.remove_if(ours);
}

}  // namespace vgpu::softgpu
