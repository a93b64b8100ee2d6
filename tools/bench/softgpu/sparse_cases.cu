// Sparse matrix times vector, and launches of kernels that do next to nothing.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <random>
#include <stdexcept>

#include "tools/bench/softgpu/case.h"
#include "tools/bench/softgpu/reference.h"

namespace vgpu::bench {
namespace {

__global__ void spmv(const int* row, const int* column, const float* value, const float* x,
                     float* y, int rows) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= rows) return;
  float total = 0;
  for (int k = row[i]; k < row[i + 1]; ++k) total += value[k] * x[column[k]];
  y[i] = total;
}

__global__ void empty() {}

__global__ void small(float* x, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] = x[i] * 2.0f + 1.0f;
}

double now_us() {
  return std::chrono::duration<double, std::micro>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void check(cudaError_t error, const char* what) {
  if (error != cudaSuccess)
    throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(error));
}

}  // namespace

void* device_alloc(size_t bytes) {
  void* at = nullptr;
  check(cudaMalloc(&at, bytes), "cudaMalloc");
  return at;
}

void to_device(void* device, const void* host, size_t bytes) {
  check(cudaMemcpy(device, host, bytes, cudaMemcpyHostToDevice), "cudaMemcpy to the device");
}

void from_device(void* host, const void* device, size_t bytes) {
  check(cudaMemcpy(host, device, bytes, cudaMemcpyDeviceToHost), "cudaMemcpy from the device");
}

void finish_kernels(const char* what) {
  check(cudaGetLastError(), what);
  check(cudaDeviceSynchronize(), what);
}

void fill(std::vector<float>* values, unsigned seed, float low, float high) {
  std::minstd_rand random(seed);
  const float step = (high - low) / static_cast<float>(std::minstd_rand::max());
  for (float& v : *values) v = low + step * static_cast<float>(random());
}

// Rows of 1 to 31 elements, their columns anywhere.
void add_sparse_cases(Cases* cases, size_t scale) {
  const size_t rows = (256u << 10) / scale;
  auto row = make_array<int>(rows + 1);
  for (size_t i = 0; i < rows; ++i)
    row->host[i + 1] = row->host[i] + 1 + static_cast<int>(i * 2654435761u >> 8 & 31u) % 31;
  const auto elements = static_cast<size_t>(row->host[rows]);
  auto column = make_array<int>(elements);
  auto value = make_array<float>(elements), x = make_array<float>(rows),
       y = make_array<float>(rows);
  std::minstd_rand random(11);
  for (int& c : column->host) c = static_cast<int>(random() % rows);
  fill(&value->host, 12, -1, 1);
  fill(&x->host, 13, -1, 1);
  row->upload();
  column->upload();
  value->upload();
  x->upload();
  cases->push_back({"spmv, CSR", 0.5,
                    [=] {
                      spmv<<<static_cast<int>(rows / 256), 256>>>(
                          row->device, column->device, value->device, x->device, y->device,
                          static_cast<int>(rows));
                      finish_kernels("spmv");
                    },
                    [=] {
                      reference::spmv(row->host.data(), column->host.data(), value->host.data(),
                                      x->host.data(), y->host.data(), rows);
                    },
                    [=] { return compare(*y, 1e-4); }});
}

LaunchTime measure_launch(int launches) {
  empty<<<1, 32>>>();
  finish_kernels("empty");
  std::vector<double> times;
  for (int i = 0; i < launches; ++i) {
    const double began = now_us();
    empty<<<1, 32>>>();
    check(cudaStreamSynchronize(nullptr), "empty");
    times.push_back(now_us() - began);
  }
  std::sort(times.begin(), times.end());
  return {times[times.size() / 2], times.front()};
}

double first_small_kernel_ms() {
  float* const x = static_cast<float*>(device_alloc(1024 * sizeof(float)));
  check(cudaMemset(x, 0, 1024 * sizeof(float)), "cudaMemset");
  finish_kernels("cudaMemset");
  const double began = now_us();
  small<<<4, 256>>>(x, 1024);
  finish_kernels("small");
  const double took = now_us() - began;
  std::vector<float> host(1024);
  from_device(host.data(), x, 1024 * sizeof(float));
  for (float v : host) {
    if (v != 1.0f) check(cudaErrorUnknown, "the small kernel's result");
  }
  return took / 1000;
}

}  // namespace vgpu::bench
