// Kernels that are bound by arithmetic: matrix products, Mandelbrot, n-body, Black-Scholes.
// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/softgpu/case.h"
#include "tools/bench/softgpu/reference.h"

namespace vgpu::bench {
namespace {

template <int kTile>
__global__ void sgemm(const float* a, const float* b, float* c, int n) {
  __shared__ float left[kTile][kTile], right[kTile][kTile];
  const int x = threadIdx.x, y = threadIdx.y;
  const int row = blockIdx.y * kTile + y, column = blockIdx.x * kTile + x;
  float sum = 0;
  for (int t = 0; t < n; t += kTile) {
    left[y][x] = a[row * n + t + x];
    right[y][x] = b[(t + y) * n + column];
    __syncthreads();
    for (int k = 0; k < kTile; ++k) sum += left[y][k] * right[k][x];
    __syncthreads();
  }
  c[row * n + column] = sum;
}

__global__ void mandelbrot(int* out, int width, int height, int limit) {
  const int column = blockIdx.x * blockDim.x + threadIdx.x;
  const int row = blockIdx.y * blockDim.y + threadIdx.y;
  if (column >= width || row >= height) return;
  const float cx = -2.0f + 3.0f * column / width, cy = -1.5f + 3.0f * row / height;
  float x = 0, y = 0;
  int i = 0;
  for (; i < limit && x * x + y * y < 4.0f; ++i) {
    const float next = x * x - y * y + cx;
    y = 2.0f * x * y + cy;
    x = next;
  }
  out[row * width + column] = i;
}

__global__ void nbody(const float4* position, float4* force, int bodies) {
  __shared__ float4 tile[256];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const float4 own = position[i];
  float fx = 0, fy = 0, fz = 0;
  for (int t = 0; t < bodies; t += blockDim.x) {
    tile[threadIdx.x] = position[t + threadIdx.x];
    __syncthreads();
    for (int j = 0; j < blockDim.x; ++j) {
      const float4 other = tile[j];
      const float dx = other.x - own.x, dy = other.y - own.y, dz = other.z - own.z;
      const float inverse = rsqrtf(dx * dx + dy * dy + dz * dz + 0.01f);
      const float scale = other.w * inverse * inverse * inverse;
      fx += dx * scale;
      fy += dy * scale;
      fz += dz * scale;
    }
    __syncthreads();
  }
  force[i] = make_float4(fx, fy, fz, 0);
}

__device__ float normal_distribution(float d) {
  const float k = 1.0f / (1.0f + 0.2316419f * fabsf(d));
  const float poly =
      k * (0.31938153f +
           k * (-0.356563782f + k * (1.781477937f + k * (-1.821255978f + k * 1.330274429f))));
  const float tail = 0.39894228040143267794f * expf(-0.5f * d * d) * poly;
  return d > 0 ? 1.0f - tail : tail;
}

__global__ void black_scholes(const float* price, const float* strike, const float* years,
                              float* call, float* put, int n) {
  constexpr float kRate = 0.02f, kVolatility = 0.3f;
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const float root = sqrtf(years[i]);
  const float d1 =
      (logf(price[i] / strike[i]) + (kRate + 0.5f * kVolatility * kVolatility) * years[i]) /
      (kVolatility * root);
  const float d2 = d1 - kVolatility * root;
  const float discount = expf(-kRate * years[i]);
  const float n1 = normal_distribution(d1), n2 = normal_distribution(d2);
  call[i] = price[i] * n1 - strike[i] * discount * n2;
  put[i] = strike[i] * discount * (1.0f - n2) - price[i] * (1.0f - n1);
}

template <int kTile>
void add_sgemm(Cases* cases, const char* name, double aim, size_t n) {
  auto a = make_array<float>(n * n), b = make_array<float>(n * n), c = make_array<float>(n * n);
  fill(&a->host, 5, -1, 1);
  fill(&b->host, 6, -1, 1);
  a->upload();
  b->upload();
  const int edge = static_cast<int>(n);
  cases->push_back({name, aim,
                    [=] {
                      sgemm<kTile><<<dim3(edge / kTile, edge / kTile), dim3(kTile, kTile)>>>(
                          a->device, b->device, c->device, edge);
                      finish_kernels("sgemm");
                    },
                    [=] { reference::sgemm(a->host.data(), b->host.data(), c->host.data(), n); },
                    [=] { return compare(*c, 1e-4); }});
}

void add_mandelbrot(Cases* cases, int width, int height) {
  constexpr int kLimit = 500;
  auto out = make_array<int>(static_cast<size_t>(width) * height);
  cases->push_back(
      {"mandelbrot", 0.5,
       [=] {
         mandelbrot<<<dim3(width / 32, height / 8), dim3(32, 8)>>>(out->device, width, height,
                                                                   kLimit);
         finish_kernels("mandelbrot");
       },
       [=] { reference::mandelbrot(out->host.data(), width, height, kLimit); },
       // Points at the edge of the set take another number of steps when a sum is rounded
       // differently: nvcc and g++ contract multiplications and additions in other places.
       [=]() -> std::string {
         const std::vector<int> got = out->download();
         size_t differ = 0;
         for (size_t i = 0; i < got.size(); ++i) differ += got[i] != out->host[i];
         return differ * 50 <= got.size() ? "" : std::to_string(differ) + " points differ";
       }});
}

}  // namespace

void add_compute_cases(Cases* cases, size_t scale) {
  const size_t n = scale == 1 ? 512 : 256;
  add_sgemm<16>(cases, "sgemm, 16x16 tile", 0.5, n);
  add_sgemm<32>(cases, "sgemm, 32x32 tile", 1, n);
  add_mandelbrot(cases, 1024, static_cast<int>(1024 / scale));

  const size_t bodies = scale == 1 ? 4096 : 1024;
  auto position = make_array<float>(4 * bodies), force = make_array<float>(4 * bodies);
  fill(&position->host, 7, 0.1f, 1);
  position->upload();
  cases->push_back({"n-body", 0.5,
                    [=] {
                      nbody<<<static_cast<int>(bodies / 256), 256>>>(
                          reinterpret_cast<float4*>(position->device),
                          reinterpret_cast<float4*>(force->device), static_cast<int>(bodies));
                      finish_kernels("nbody");
                    },
                    [=] { reference::nbody(position->host.data(), force->host.data(), bodies); },
                    [=] { return compare(*force, 1e-3); }});

  const size_t options = (4u << 20) / scale;
  auto price = make_array<float>(options), strike = make_array<float>(options),
       years = make_array<float>(options), call = make_array<float>(options),
       put = make_array<float>(options);
  fill(&price->host, 8, 5, 30);
  fill(&strike->host, 9, 1, 100);
  fill(&years->host, 10, 0.25f, 10);
  for (const auto& array : {price, strike, years}) array->upload();
  cases->push_back({"Black-Scholes", 0.5,
                    [=] {
                      black_scholes<<<static_cast<int>(options / 256), 256>>>(
                          price->device, strike->device, years->device, call->device, put->device,
                          static_cast<int>(options));
                      finish_kernels("black_scholes");
                    },
                    [=] {
                      reference::black_scholes(price->host.data(), strike->host.data(),
                                               years->host.data(), call->host.data(),
                                               put->host.data(), options);
                    },
                    [=] {
                      const std::string first = compare(*call, 1e-4);
                      return first.empty() ? compare(*put, 1e-4) : first;
                    }});
}

}  // namespace vgpu::bench
