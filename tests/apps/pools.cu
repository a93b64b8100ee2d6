// cudaMallocAsync: two streams that hand memory on by an event, pools and their attributes, and
// thrust with memory of the pool for what it needs in between.
// SPDX-License-Identifier: Apache-2.0
#include <thrust/device_vector.h>
#include <thrust/execution_policy.h>
#include <thrust/host_vector.h>
#include <thrust/reduce.h>
#include <thrust/sort.h>

#include <vector>

#include "app.h"

// Memory in a stream's order for thrust's own needs.
struct StreamAllocator {
  using value_type = char;
  cudaStream_t stream;
  int taken = 0;
  char* allocate(std::ptrdiff_t bytes) {
    void* memory;
    CHECKED(cudaMallocAsync(&memory, bytes, stream));
    ++taken;
    return static_cast<char*>(memory);
  }
  void deallocate(char* memory, size_t) { CHECKED(cudaFreeAsync(memory, stream)); }
};

__global__ void fill(int* data, int n, int value) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    data[i] = value + i;
}

__global__ void add(int* to, const int* from, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    to[i] += from[i];
}

static uint64_t attribute(cudaMemPool_t pool, cudaMemPoolAttr which) {
  uint64_t value = 0;
  CHECKED(cudaMemPoolGetAttribute(pool, which, &value));
  return value;
}

static int rounds_in_streams(cudaStream_t first, cudaStream_t second) {
  const int n = 100000;
  int* sum;
  CHECKED(cudaMallocAsync(reinterpret_cast<void**>(&sum), n * sizeof(int), first));
  CHECKED(cudaMemsetAsync(sum, 0, n * sizeof(int), first));
  cudaEvent_t filled;
  CHECKED(cudaEventCreateWithFlags(&filled, cudaEventDisableTiming));
  for (int round = 0; round < 20; ++round) {
    int* part;
    CHECKED(cudaMallocAsync(reinterpret_cast<void**>(&part), n * sizeof(int), second));
    fill<<<8, 128, 0, second>>>(part, n, round);
    CHECKED(cudaEventRecord(filled, second));
    CHECKED(cudaStreamWaitEvent(first, filled, 0));
    add<<<8, 128, 0, first>>>(sum, part, n);
    CHECKED(cudaFreeAsync(part, first));
  }
  std::vector<int> host(n);
  CHECKED(cudaMemcpyAsync(host.data(), sum, n * sizeof(int), cudaMemcpyDeviceToHost, first));
  CHECKED(cudaFreeAsync(sum, first));
  CHECKED(cudaStreamSynchronize(first));
  CHECKED(cudaEventDestroy(filled));
  int wrong = 0;
  for (int i = 0; i < n; ++i) wrong += host[i] != 190 + 20 * i;
  return wrong;
}

static bool sorts(cudaStream_t stream) {
  StreamAllocator allocator{stream};
  std::vector<int> host(20000);
  app::Random random(1);
  for (int& each : host) each = static_cast<int>(random.next() % 1000);
  thrust::device_vector<int> data(host.begin(), host.end());
  thrust::sort(thrust::cuda::par(allocator).on(stream), data.begin(), data.end());
  const int sum = thrust::reduce(thrust::cuda::par(allocator).on(stream), data.begin(), data.end());
  CHECKED(cudaStreamSynchronize(stream));
  int expected = 0;
  for (const int each : host) expected += each;
  thrust::host_vector<int> sorted = data;
  bool good = sum == expected && allocator.taken > 0;
  for (size_t i = 1; i < sorted.size(); ++i) good = good && sorted[i - 1] <= sorted[i];
  return good;
}

int main(int argc, char** argv) {
  const app::Timer timer(argc, argv);
  int supported = 0;
  CHECKED(cudaDeviceGetAttribute(&supported, cudaDevAttrMemoryPoolsSupported, 0));
  cudaStream_t first, second;
  CHECKED(cudaStreamCreate(&first));
  CHECKED(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking));
  cudaMemPool_t pool;
  CHECKED(cudaDeviceGetDefaultMemPool(&pool, 0));
  uint64_t all = ~uint64_t{0};
  CHECKED(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &all));
  const int wrong = rounds_in_streams(first, second);
  bool good = supported == 1 && wrong == 0;
  good = good && attribute(pool, cudaMemPoolAttrUsedMemCurrent) == 0 &&
         attribute(pool, cudaMemPoolAttrReservedMemCurrent) >= 400000 &&
         attribute(pool, cudaMemPoolAttrUsedMemHigh) >= 800000;
  const bool sorted = sorts(first);
  CHECKED(cudaDeviceSynchronize());
  CHECKED(cudaMemPoolTrimTo(pool, 0));
  good = good && sorted && attribute(pool, cudaMemPoolAttrReservedMemCurrent) == 0;
  void* plain;
  CHECKED(cudaMallocAsync(&plain, 1000, first));
  CHECKED(cudaFree(plain));
  std::printf("wrong %d, sorted %d\n", wrong, sorted);
  CHECKED(cudaStreamDestroy(first));
  CHECKED(cudaStreamDestroy(second));
  timer.report("pools");
  return app::finish("pools", good);
}
