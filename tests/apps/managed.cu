// cudaMallocManaged and __managed__ variables: host and kernels write the same words in turn.
// With --timing also how long a vector addition takes over managed memory and with explicit copies.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <vector>

#include "app.h"

__managed__ int counter = 5;
__managed__ float table[1000];
__device__ int plain = 3;

__global__ void add(const float* a, const float* b, float* sum, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    sum[i] = a[i] + b[i];
}

__global__ void touch(int by) {
  const int i = threadIdx.x;
  if (i == 0) counter += by + plain;
  for (int at = i; at < 1000; at += blockDim.x) table[at] = table[at] * 2 + 1;
}

struct Node {
  int value;
  Node* next;
};

__global__ void walk(Node* node) {
  for (; node != nullptr; node = node->next) node->value *= 10;
}

static bool variables() {
  for (int i = 0; i < 1000; ++i) table[i] = static_cast<float>(i);
  counter = 7;
  touch<<<1, 128>>>(1);
  CHECKED(cudaDeviceSynchronize());
  bool good = counter == 11;
  for (int i = 0; i < 1000; ++i) good = good && table[i] == static_cast<float>(2 * i + 1);
  counter = 20;
  touch<<<1, 128>>>(2);
  CHECKED(cudaDeviceSynchronize());
  int copied = 0;
  CHECKED(cudaMemcpyFromSymbol(&copied, counter, sizeof(copied)));
  cudaPointerAttributes attributes;
  CHECKED(cudaPointerGetAttributes(&attributes, &counter));
  std::printf("counter %d, copied %d, type %d\n", counter, copied, attributes.type);
  return good && counter == 25 && copied == 25 && attributes.type == cudaMemoryTypeManaged;
}

// Pointers inside structures mean the same on both sides.
static bool list() {
  Node* nodes;
  CHECKED(cudaMallocManaged(&nodes, 100 * sizeof(Node)));
  for (int i = 0; i < 100; ++i) nodes[i] = {i, i < 99 ? &nodes[i + 1] : nullptr};
  walk<<<1, 1>>>(nodes);
  CHECKED(cudaDeviceSynchronize());
  int sum = 0;
  for (const Node* node = nodes; node != nullptr; node = node->next) sum += node->value;
  CHECKED(cudaFree(nodes));
  return sum == 49500;
}

static bool add_managed(int n, bool hints) {
  float *a, *b, *sum;
  const size_t bytes = n * sizeof(float);
  for (float** each : {&a, &b, &sum}) CHECKED(cudaMallocManaged(each, bytes));
  for (int i = 0; i < n; ++i) a[i] = i, b[i] = 2 * i;
  if (hints) {
    const cudaMemLocation device = {cudaMemLocationTypeDevice, 0};
    CHECKED(cudaMemAdvise(a, bytes, cudaMemAdviseSetReadMostly, device));
    CHECKED(cudaMemPrefetchAsync(a, bytes, device, 0, nullptr));
  }
  add<<<64, 128>>>(a, b, sum, n);
  CHECKED(cudaDeviceSynchronize());
  bool good = true;
  for (int i = 0; i < n; ++i) good = good && sum[i] == 3.0F * i;
  for (float* each : {a, b, sum}) CHECKED(cudaFree(each));
  return good;
}

static bool add_copied(int n) {
  const size_t bytes = n * sizeof(float);
  std::vector<float> a(n), b(n), sum(n);
  float *da, *db, *dsum;
  for (float** each : {&da, &db, &dsum}) CHECKED(cudaMalloc(each, bytes));
  for (int i = 0; i < n; ++i) a[i] = i, b[i] = 2 * i;
  CHECKED(cudaMemcpy(da, a.data(), bytes, cudaMemcpyHostToDevice));
  CHECKED(cudaMemcpy(db, b.data(), bytes, cudaMemcpyHostToDevice));
  add<<<64, 128>>>(da, db, dsum, n);
  CHECKED(cudaMemcpy(sum.data(), dsum, bytes, cudaMemcpyDeviceToHost));
  bool good = true;
  for (int i = 0; i < n; ++i) good = good && sum[i] == 3.0F * i;
  for (float* each : {da, db, dsum}) CHECKED(cudaFree(each));
  return good;
}

template <typename Run>
static double best_ms(Run&& run) {
  double best = 1e9;
  for (int i = 0; i < 7; ++i) {
    const auto start = std::chrono::steady_clock::now();
    run();
    const auto passed = std::chrono::steady_clock::now() - start;
    best = std::min(best, std::chrono::duration<double, std::milli>(passed).count());
  }
  return best;
}

int main(int argc, char** argv) {
  int managed = 0, concurrent = 0;
  CHECKED(cudaDeviceGetAttribute(&managed, cudaDevAttrManagedMemory, 0));
  CHECKED(cudaDeviceGetAttribute(&concurrent, cudaDevAttrConcurrentManagedAccess, 0));
  const bool in_variables = variables(), in_list = list();
  const bool added = add_managed(100000, true) && add_copied(100000);
  std::printf("managed %d, concurrent %d, variables %d, list %d, added %d\n", managed, concurrent,
              in_variables, in_list, added);
  if (app::wants(argc, argv, "--timing")) {
    const int n = 1 << 22;
    std::printf("managed %.2f ms, copied %.2f ms\n", best_ms([&] { add_managed(n, false); }),
                best_ms([&] { add_copied(n); }));
  }
  return app::finish("managed", managed == 1 && in_variables && in_list && added);
}
