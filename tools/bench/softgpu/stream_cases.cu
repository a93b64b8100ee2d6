// Kernels that are bound by memory: vector sums, transpose, stencil.
// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/softgpu/case.h"
#include "tools/bench/softgpu/reference.h"

namespace vgpu::bench {
namespace {

__global__ void vecadd(const float* a, const float* b, float* c, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) c[i] = a[i] + b[i];
}

__global__ void saxpy(float a, const float* x, const float* y, float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = a * x[i] + y[i];
}

__global__ void saxpy_grid_stride(float a, const float* x, const float* y, float* out, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x)
    out[i] = a * x[i] + y[i];
}

__global__ void vecadd4(const float4* a, const float4* b, float4* c, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const float4 x = a[i], y = b[i];
  c[i] = make_float4(x.x + y.x, x.y + y.y, x.z + y.z, x.w + y.w);
}

__global__ void transpose(const float* in, float* out, int n) {
  __shared__ float tile[32][33];
  const int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
  for (int k = 0; k < 32; k += 8) tile[threadIdx.y + k][threadIdx.x] = in[(y + k) * n + x];
  __syncthreads();
  const int column = blockIdx.y * 32 + threadIdx.x, row = blockIdx.x * 32 + threadIdx.y;
  for (int k = 0; k < 32; k += 8) out[(row + k) * n + column] = tile[threadIdx.x][threadIdx.y + k];
}

__global__ void stencil(const float* in, float* out, int n) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= n || y >= n) return;
  const int at = y * n + x;
  if (x == 0 || y == 0 || x == n - 1 || y == n - 1) {
    out[at] = in[at];
    return;
  }
  out[at] = 0.5f * in[at] + 0.125f * (in[at - 1] + in[at + 1] + in[at - n] + in[at + n]);
}

constexpr int kThreads = 256;
constexpr float kFactor = 1.5f;

int blocks_for(size_t n) { return static_cast<int>((n + kThreads - 1) / kThreads); }

void add_square_cases(Cases* cases, size_t n) {
  auto in = make_array<float>(n * n), across = make_array<float>(n * n),
       smooth = make_array<float>(n * n);
  fill(&in->host, 3, -1, 1);
  in->upload();
  const int edge = static_cast<int>(n);
  cases->push_back({"transpose, tiles", 0.5,
                    [=] {
                      transpose<<<dim3(edge / 32, edge / 32), dim3(32, 8)>>>(in->device,
                                                                             across->device, edge);
                      finish_kernels("transpose");
                    },
                    [=] { reference::transpose(in->host.data(), across->host.data(), n); },
                    [=] { return compare(*across, 0); }});
  cases->push_back({"stencil, 5 points", 0.5,
                    [=] {
                      stencil<<<dim3(edge / 32, edge / 8), dim3(32, 8)>>>(in->device,
                                                                          smooth->device, edge);
                      finish_kernels("stencil");
                    },
                    [=] { reference::stencil(in->host.data(), smooth->host.data(), n); },
                    [=] { return compare(*smooth, 1e-6); }});
}

}  // namespace

void add_stream_cases(Cases* cases, size_t scale) {
  const size_t n = (16u << 20) / scale;
  const int count = static_cast<int>(n);
  auto a = make_array<float>(n), b = make_array<float>(n), out = make_array<float>(n);
  fill(&a->host, 1, -1, 1);
  fill(&b->host, 2, -1, 1);
  a->upload();
  b->upload();
  const auto sum = [=] { reference::vecadd(a->host.data(), b->host.data(), out->host.data(), n); };
  const auto scaled = [=] {
    reference::saxpy(kFactor, a->host.data(), b->host.data(), out->host.data(), n);
  };
  const auto same = [=] { return compare(*out, 1e-6); };
  cases->push_back({"vecadd", 0.9,
                    [=] {
                      vecadd<<<blocks_for(n), kThreads>>>(a->device, b->device, out->device, count);
                      finish_kernels("vecadd");
                    },
                    sum, same});
  cases->push_back({"vecadd, float4", 0.9,
                    [=] {
                      vecadd4<<<blocks_for(n / 4), kThreads>>>(
                          reinterpret_cast<float4*>(a->device),
                          reinterpret_cast<float4*>(b->device),
                          reinterpret_cast<float4*>(out->device), count / 4);
                      finish_kernels("vecadd4");
                    },
                    sum, same});
  cases->push_back({"saxpy", 0.9,
                    [=] {
                      saxpy<<<blocks_for(n), kThreads>>>(kFactor, a->device, b->device, out->device,
                                                         count);
                      finish_kernels("saxpy");
                    },
                    scaled, same});
  cases->push_back({"saxpy, grid-stride", 0.5,
                    [=] {
                      saxpy_grid_stride<<<64, kThreads>>>(kFactor, a->device, b->device,
                                                          out->device, count);
                      finish_kernels("saxpy_grid_stride");
                    },
                    scaled, same});
  add_square_cases(cases, scale == 1 ? 4096 : 1024);
}

}  // namespace vgpu::bench
