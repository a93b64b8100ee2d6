// What a loaded module is made of: kernels, their parameters and attributes, and the globals asked
// for so far. SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SHIM_KERNEL_LAYOUT_H_
#define VGPU_SHIM_KERNEL_LAYOUT_H_

#include <cuda.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "shim/objects.h"

namespace vgpu::shim {

struct Param {
  uint32_t offset = 0, bytes = 0;
};

struct FurtherKernels;
struct Kernel {
  std::string name;
  std::vector<Param> params;
  uint32_t param_bytes = 0;  // end of the last one
  std::vector<int32_t> attributes;
  uint64_t function_id = 0;  // the CUfunction that stands for it, once made; under Session::objects
  uint64_t kernel_id = 0;    // the same for CUkernel
  std::shared_ptr<FurtherKernels> further;  // a library's, in other contexts than the first

  int attribute(int number) const {
    const auto index = static_cast<size_t>(number);
    return number >= 0 && index < attributes.size() ? attributes[index] : 0;
  }
};

// A library's kernel in a context other than that in which the library was loaded: what can be
// asked of it, and set, is each context's own. Lives as long as the library.
struct FurtherKernel {
  Kernel kernel;
  Context* context = nullptr;
  std::atomic<uint64_t> life{0};  // Context::unique_id: in a later one it has to be asked for again
  FurtherKernel* next = nullptr;
};

// Found without a lock, added under Session::objects.
struct FurtherKernels {
  std::atomic<FurtherKernel*> first{nullptr};  // release and acquire: what it points to is complete

  FurtherKernels() = default;
  FurtherKernels(const FurtherKernels&) = delete;
  FurtherKernels& operator=(const FurtherKernels&) = delete;
  ~FurtherKernels() {
    for (FurtherKernel* each = first.load(); each != nullptr;)
      delete std::exchange(each, each->next);
  }
  Kernel* find(uint64_t life) const {
    FurtherKernel* each = first.load(std::memory_order_acquire);
    while (each != nullptr && each->life.load(std::memory_order_acquire) != life) each = each->next;
    return each == nullptr ? nullptr : &each->kernel;
  }
};

struct Global {
  uint64_t address = 0, bytes = 0;
};

// Bytes that are part of a sum for as long as this lasts.
class CountedBytes {
 public:
  CountedBytes() = default;
  CountedBytes(const CountedBytes&) = delete;
  CountedBytes& operator=(const CountedBytes&) = delete;
  ~CountedBytes() {
    if (sum_ != nullptr) sum_->fetch_sub(bytes_, std::memory_order_relaxed);
  }
  // Once. Relaxed: a number that is shown.
  void count(std::atomic<uint64_t>* sum, uint64_t bytes) {
    sum_ = sum;
    bytes_ = bytes;
    sum_->fetch_add(bytes, std::memory_order_relaxed);
  }
  uint64_t bytes() const { return bytes_; }

 private:
  std::atomic<uint64_t>* sum_ = nullptr;
  uint64_t bytes_ = 0;
};

// A module or a library: the same thing but for who may use it.
struct Module {
  uint64_t id = 0;             // on the wire
  Context* context = nullptr;  // null: a library
  uint64_t library = 0;        // of a module that cuLibraryGetModule made
  Context* home = nullptr;     // in which it was loaded
  uint64_t home_life = 0;      // Context::unique_id then
  std::vector<Kernel> kernels;
  std::map<std::string, uint32_t, std::less<>> index;
  // By context, of which a library has several, and name; under Session::objects.
  std::map<uint64_t, std::map<std::string, Global, std::less<>>> globals;
  CountedBytes variables;  // in the context that it was loaded in
};

// A CUfunction or CUkernel.
struct Function {
  uint64_t module = 0;  // on the wire
  uint32_t index = 0;
  Kernel* kernel = nullptr;
  Context* context = nullptr;  // null: any (of a library)
  uint64_t owner = 0;          // handle of the module or library
  Context* home = nullptr;     // as of the module
  uint64_t home_life = 0;
};

// Fills `module` from the bytes of a ModuleLayout. False when they are damaged.
bool read_layout(std::span<const uint8_t> bytes, Module* module);

}  // namespace vgpu::shim

#endif  // VGPU_SHIM_KERNEL_LAYOUT_H_
