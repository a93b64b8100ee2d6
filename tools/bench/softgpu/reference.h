// The C++ side: plain loops, compiled for this machine, on as many threads as the device has SMs.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_TOOLS_BENCH_SOFTGPU_REFERENCE_H_
#define VGPU_TOOLS_BENCH_SOFTGPU_REFERENCE_H_

#include <cstddef>
#include <cstdint>

namespace vgpu::bench::reference {

// Threads that the references use; set once, before the first of them runs.
void use_threads(unsigned threads);

void vecadd(const float* a, const float* b, float* c, size_t n);
void saxpy(float a, const float* x, const float* y, float* out, size_t n);
// Sixteen sums side by side, as who cares for speed writes it.
void sum(const float* x, size_t n, double* out);
void histogram(const uint32_t* x, size_t n, uint32_t* bins);     // 256 bins of the low byte
void sgemm(const float* a, const float* b, float* c, size_t n);  // loops in the order i, k, j
void mandelbrot(int* out, int width, int height, int limit);
void nbody(const float* position, float* force, size_t bodies);  // x, y, z, mass; x, y, z, 0
void black_scholes(const float* price, const float* strike, const float* years, float* call,
                   float* put, size_t n);
void transpose(const float* in, float* out, size_t n);  // n x n, in tiles of 32 x 32
void stencil(const float* in, float* out, size_t n);    // n x n, five points, borders copied
void spmv(const int* row, const int* column, const float* value, const float* x, float* y,
          size_t rows);
void bitonic(uint32_t* keys, size_t n, size_t segment);  // sorts each segment, by the network

}  // namespace vgpu::bench::reference

#endif  // VGPU_TOOLS_BENCH_SOFTGPU_REFERENCE_H_
