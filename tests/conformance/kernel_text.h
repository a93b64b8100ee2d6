// PTX that several tests need, put together from parts.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_TESTS_CONFORMANCE_KERNEL_TEXT_H_
#define VGPU_TESTS_CONFORMANCE_KERNEL_TEXT_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace vgpu::conformance {

// The suite's own module. Kernels:
// fill(out, n, value): out[i] = value; add(data, n, value): data[i] += value;
// where(out): out[global thread] = block << 16 | thread, over three dimensions;
// gate(flag): waits until *flag (host memory) is not 0; poke(address): stores a 1 there;
// sum(out, in): dynamic shared memory of one block. Global: .global u32 counter = 7.
extern const char* const kKernels;

// A module's first lines, for every device since Volta, and `rest`.
std::string ptx_module(std::string_view rest);

// An entry (data, n, value) that runs `code` for each i < n. There %rd3 is the address of data[i],
// %r1 value, %r6 and %r7 are free.
std::string element_kernel(std::string_view name, std::string_view code);

// A whole module with the entry fill(data, n, value): data[i] = value + `offset`.
std::string fill_module(uint32_t offset);

}  // namespace vgpu::conformance

#endif  // VGPU_TESTS_CONFORMANCE_KERNEL_TEXT_H_
