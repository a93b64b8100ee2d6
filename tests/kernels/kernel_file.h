// Kernel files: PTX with its launch, inputs and expected outputs.
// SPDX-License-Identifier: Apache-2.0
//
// A PTX file with its launch, inputs and expected outputs in comments at its head:
//
//   //! entry name                  kernel to run; default: the first
//   //! grid 2,1,1                  default 1
//   //! block 64,1,1                default 32
//   //! cluster 2,1,1              default: launched without clusters
//   //! shared 256                  dynamic shared bytes; default 0
//   //! lanes 32                    not thread by thread: the kernel needs whole warps
//   //! in a u32 64 = random 7      a parameter: pointer to 64 elements
//   //! out d f32 64 = 1 2 3        pointer to zeroed elements, and what they must become
//   //! inout x u32 8 = 1 -> 2      pointer to elements with a content before and after
//   //! value n u32 = 5             a parameter by value
//   //! near 1e-6                   floats may be off by this much, relative; default: bits
//
// Contents: values that repeat cyclically (decimal, hex, floats as numbers); `iota start step`;
// `random seed`; after `=` or `->` of outputs also `ref name`, a function of references.cc.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "executor.h"

namespace vgpu::softgpu {

// Elements of u8…u64, s8…s64, b8…b128, f32 or f64 in 8-byte aligned memory.
struct Buffer {
  std::string name, type;
  size_t count = 0, element = 0;  // element: bytes
  std::vector<uint64_t> words;

  uint8_t* data() { return reinterpret_cast<uint8_t*>(words.data()); }
  const uint8_t* data() const { return reinterpret_cast<const uint8_t*>(words.data()); }
  template <typename T>
  const T* as() const {
    return reinterpret_cast<const T*>(words.data());
  }
  template <typename T>
  T* as() {
    return reinterpret_cast<T*>(words.data());
  }
};

struct KernelFile {
  std::string ptx, entry;
  Launch launch;
  bool whole_warps = false;
  double near = 0;
  struct Parameter {
    Buffer before, after;
    bool is_output = false, by_value = false;
  };
  std::vector<Parameter> parameters;
};

// False and a text for a file that breaks the grammar.
bool read_kernel_file(const std::string& path, KernelFile* file, std::string* error);

// Fills `out` from the parameters of the launch as they were before. False when there is no such
// reference.
bool apply_reference(const std::string& name, const std::vector<KernelFile::Parameter>& parameters,
                     Buffer* out);

}  // namespace vgpu::softgpu
