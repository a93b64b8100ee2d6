// Kernels that launch kernels: order in streams, what waits for what, quicksort by recursion.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <vector>

#include "app.h"

struct Results {
  int count;
  int log[4096];
};

struct Wide {  // passed by value
  long long a[5];
  char c;
  double d;
};

__global__ void append(Results* r, int value) { r->log[atomicAdd(&r->count, 1)] = value; }

__global__ void add(int* sum, int value) { atomicAdd(sum, value); }

__global__ void spin_then_set(int* flag, int value) {
  unsigned state = 1;
  for (int i = 0; i < 200000; ++i) state = state * 1664525U + 1013904223U;
  if (threadIdx.x == 0 && blockIdx.x == 0) *flag = state == 0 ? -1 : value;
}

__global__ void copy_word(const int* from, int* to) { *to = *from + 1; }

// One stream: in order.
__global__ void in_order(Results* r) {
  printf("parent of %d\n", 100);
  for (int i = 0; i < 100; ++i) append<<<1, 1>>>(r, i);
}

__global__ void with_event(int* words) {
  cudaStream_t first, second;
  cudaEvent_t event;
  cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking);
  cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking);
  cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
  spin_then_set<<<4, 64, 0, first>>>(&words[0], 41);
  cudaEventRecord(event, first);
  cudaStreamWaitEvent(second, event, 0);
  copy_word<<<1, 1, 0, second>>>(&words[0], &words[1]);
  cudaStreamDestroy(first);
  cudaStreamDestroy(second);
  cudaEventDestroy(event);
  words[2] = cudaGetLastError();
}

// Tails see what everybody else has done, though they are launched first.
__global__ void tails(Results* r, int* sum) {
  append<<<1, 1, 0, cudaStreamTailLaunch>>>(r, 1);
  copy_word<<<1, 1, 0, cudaStreamTailLaunch>>>(sum, sum + 1);
  append<<<1, 1, 0, cudaStreamTailLaunch>>>(r, 2);
  for (int i = 0; i < 10; ++i) {
    add<<<1, 32, 0, cudaStreamFireAndForget>>>(sum, 1);
    add<<<1, 32>>>(sum, 1);
    add<<<1, 32, 0, cudaStreamPerThread>>>(sum, 1);
  }
  append<<<1, 1>>>(r, 0);
}

// A tail's own tail comes before the next of its grid's.
__global__ void tail_of_tail(Results* r, int level) {
  append<<<1, 1>>>(r, 10 * level);
  if (level == 0) {
    tail_of_tail<<<1, 1, 0, cudaStreamTailLaunch>>>(r, 1);
    append<<<1, 1, 0, cudaStreamTailLaunch>>>(r, 99);
  } else if (level < 4) {
    tail_of_tail<<<1, 1, 0, cudaStreamTailLaunch>>>(r, level + 1);
  }
}

__device__ cudaStream_t common_stream;
__device__ cudaEvent_t common_event;
__device__ int common_made;

__device__ void make_common() {
  if (blockIdx.x == 0) {
    cudaStreamCreateWithFlags(&common_stream, cudaStreamNonBlocking);
    cudaEventCreateWithFlags(&common_event, cudaEventDisableTiming);
    __threadfence();
    atomicExch(&common_made, 1);
  }
  while (atomicAdd(&common_made, 0) == 0) {
  }
  __threadfence();
}

// Blocks record one event in one stream.
__global__ void share_a_stream(int* sum) {
  make_common();
  for (int i = 0; i < 3; ++i) cudaEventRecord(common_event, common_stream);
  add<<<1, 1, 0, common_stream>>>(sum, 1);
}

// And wait there for what others record.
__global__ void share_and_wait(int* sum) {
  make_common();
#pragma unroll 1
  for (int i = 0; i < 20; ++i) {
    cudaEventRecord(common_event, common_stream);
    cudaStreamWaitEvent(common_stream, common_event, 0);
  }
  add<<<1, 1, 0, common_stream>>>(sum, 1);
}

__global__ void relaunch(int* left) {  // a loop of any length
  if (--*left > 0) relaunch<<<1, 1, 0, cudaStreamTailLaunch>>>(left);
}

__global__ void tree(int* nodes, int levels) {
  atomicAdd(nodes, 1);
  if (levels <= 1) return;
  tree<<<1, 1, 0, cudaStreamFireAndForget>>>(nodes, levels - 1);
  tree<<<1, 1>>>(nodes, levels - 1);
}

__global__ void take_wide(int* out, Wide w, short s) {
  out[threadIdx.x] = static_cast<int>(w.a[threadIdx.x] + w.c + static_cast<int>(w.d) + s);
}

__global__ void shared_sum(const int* in, int* out) {
  extern __shared__ int words[];
  words[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  for (unsigned step = blockDim.x / 2; step > 0; step /= 2) {
    if (threadIdx.x < step) words[threadIdx.x] += words[threadIdx.x + step];
    __syncthreads();
  }
  if (threadIdx.x == 0) *out = words[0];
}

// Every thread launches something else; blocks of many shapes.
__global__ void divergent(int* out) {
  const int t = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (t % 3 == 0) {
    add<<<dim3(1, 2, 1), dim3(3, 1, 2)>>>(&out[t], t);
  } else if (t % 3 == 1) {
    add<<<1, t % 61 + 1, 0, cudaStreamFireAndForget>>>(&out[t], 7);
  } else {
    cudaStream_t own;
    cudaStreamCreateWithFlags(&own, cudaStreamNonBlocking);
    add<<<1, 1, 0, own>>>(&out[t], t);
    cudaStreamDestroy(own);
  }
}

__global__ void moves(int* words, const int* source) {
  Wide wide = {{1, 2, 3, 4, 5}, 6, 7.5};
  take_wide<<<1, 5>>>(words, wide, 8);
  cudaMemcpyAsync(words + 8, words, 5 * sizeof(int), cudaMemcpyDeviceToDevice);
  cudaMemsetAsync(words, 0, 3 * sizeof(int));  // the runtime of CUDA 13.0 fills with 0 always
  shared_sum<<<1, 256, 256 * sizeof(int)>>>(source, words + 16);
  words[17] = cudaGetLastError();
}

__global__ void fill_and_free(int* heap, int* out) {
  heap[threadIdx.x] = static_cast<int>(threadIdx.x);
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int i = 0; i < 64; ++i) *out += heap[i];
  cudaFree(heap);
}

__global__ void lends_heap(int* out) {
  int* heap = nullptr;
  if (cudaMalloc(&heap, 64 * sizeof(int)) == cudaSuccess) fill_and_free<<<1, 64>>>(heap, out);
}

__global__ void quicksort(int* data, int left, int right, int depth) {
  if (right - left <= 16 || depth >= 20) {
    for (int i = left + 1; i <= right; ++i) {
      const int value = data[i];
      int at = i;
      for (; at > left && data[at - 1] > value; --at) data[at] = data[at - 1];
      data[at] = value;
    }
    return;
  }
  const int pivot = data[(left + right) / 2];
  int low = left, high = right;
  while (low <= high) {
    while (data[low] < pivot) ++low;
    while (data[high] > pivot) --high;
    if (low > high) break;
    const int swapped = data[low];
    data[low++] = data[high];
    data[high--] = swapped;
  }
  cudaStream_t first, second;
  if (left < high) {
    cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking);
    quicksort<<<1, 1, 0, first>>>(data, left, high, depth + 1);
    cudaStreamDestroy(first);
  }
  if (low < right) {
    cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking);
    quicksort<<<1, 1, 0, second>>>(data, low, right, depth + 1);
    cudaStreamDestroy(second);
  }
}

namespace {

int wrong = 0;

void expect(bool good, const char* what) {
  std::printf("%s: %s\n", what, good ? "right" : "WRONG");
  wrong += good ? 0 : 1;
}

bool log_is(const Results& r, const std::vector<int>& want) {
  return r.count == static_cast<int>(want.size()) && std::equal(want.begin(), want.end(), r.log);
}

void check_order(Results* r, int* words) {
  CHECKED(cudaMemset(r, 0, sizeof *r));
  in_order<<<1, 1>>>(r);
  CHECKED(cudaDeviceSynchronize());
  std::vector<int> want(100);
  for (int i = 0; i < 100; ++i) want[i] = i;
  expect(log_is(*r, want), "one stream keeps its order");
  CHECKED(cudaMemset(words, 0, 64));
  with_event<<<1, 1>>>(words);
  CHECKED(cudaDeviceSynchronize());
  expect(words[0] == 41 && words[1] == 42 && words[2] == 0, "an event orders two streams");
}

void check_tails(Results* r, int* words) {
  CHECKED(cudaMemset(r, 0, sizeof *r));
  CHECKED(cudaMemset(words, 0, 64));
  tails<<<1, 1>>>(r, words);
  append<<<1, 1>>>(r, 3);  // the host's stream goes on behind the last tail
  CHECKED(cudaDeviceSynchronize());
  expect(log_is(*r, {0, 1, 2, 3}) && words[0] == 960 && words[1] == 961, "tails come last");
  CHECKED(cudaMemset(r, 0, sizeof *r));
  tail_of_tail<<<1, 1>>>(r, 0);
  append<<<1, 1>>>(r, 100);
  CHECKED(cudaDeviceSynchronize());
  expect(log_is(*r, {0, 10, 20, 30, 40, 99, 100}), "tails of tails come first");
  words[0] = 10000;
  relaunch<<<1, 1>>>(words);
  CHECKED(cudaDeviceSynchronize());
  expect(words[0] == 0, "a kernel that relaunches itself");
}

void check_shapes(int* words, int* source) {
  CHECKED(cudaMemset(words, 0, 512 * sizeof(int)));
  divergent<<<2, 128>>>(words);
  CHECKED(cudaDeviceSynchronize());
  int bad = 0;
  for (int t = 0; t < 256; ++t)
    bad += words[t] != (t % 3 == 0 ? 12 * t : t % 3 == 1 ? 7 * (t % 61 + 1) : t);
  expect(bad == 0, "each thread launches its own");
  CHECKED(cudaMemset(words, 0, 512 * sizeof(int)));
  int sum = 0;
  for (int i = 0; i < 256; ++i) sum += source[i] = i * i % 97;
  moves<<<1, 1>>>(words, source);
  CHECKED(cudaDeviceSynchronize());
  bool good = words[3] == 25 && words[4] == 26 && words[16] == sum && words[17] == 0;
  for (int i = 0; i < 3; ++i) good = good && words[i] == 0 && words[8 + i] == 22 + i;
  expect(good, "parameters, copies, fills, shared memory");
  words[0] = 0;
  lends_heap<<<1, 1>>>(words);
  CHECKED(cudaDeviceSynchronize());
  expect(words[0] == 64 * 63 / 2, "memory of the kernel's heap goes to a child");
}

void check_sharing(int* words) {
  const int none = 0;
  CHECKED(cudaMemset(words, 0, 64));
  CHECKED(cudaMemcpyToSymbol(common_made, &none, sizeof none));
  share_a_stream<<<8, 1>>>(words);
  CHECKED(cudaDeviceSynchronize());
  CHECKED(cudaMemcpyToSymbol(common_made, &none, sizeof none));
  share_and_wait<<<8, 1>>>(words + 1);
  CHECKED(cudaDeviceSynchronize());
  expect(words[0] == 8 && words[1] == 8, "blocks share a stream and an event");
}

void check_recursion(int* words) {
  CHECKED(cudaMemset(words, 0, 64));
  tree<<<1, 1>>>(words, 11);
  CHECKED(cudaDeviceSynchronize());
  expect(words[0] == 2047, "a tree of launches");
  constexpr int kCount = 20000;
  std::vector<int> numbers(kCount);
  app::Random random(5);
  for (int& number : numbers) number = static_cast<int>(random.next() % 100000);
  int* device = nullptr;
  CHECKED(cudaMalloc(&device, kCount * sizeof(int)));
  CHECKED(cudaMemcpy(device, numbers.data(), kCount * sizeof(int), cudaMemcpyHostToDevice));
  quicksort<<<1, 1>>>(device, 0, kCount - 1, 0);
  std::vector<int> sorted(kCount);
  CHECKED(cudaMemcpy(sorted.data(), device, kCount * sizeof(int), cudaMemcpyDeviceToHost));
  std::sort(numbers.begin(), numbers.end());
  expect(sorted == numbers, "quicksort");
  CHECKED(cudaFree(device));
}

}  // namespace

int main(int argc, char** argv) {
  const app::Timer timer(argc, argv);
  Results* results = nullptr;
  int *words = nullptr, *source = nullptr;
  CHECKED(cudaMallocManaged(&results, sizeof *results));
  CHECKED(cudaMallocManaged(&words, 512 * sizeof(int)));
  CHECKED(cudaMallocManaged(&source, 256 * sizeof(int)));
  check_order(results, words);
  check_tails(results, words);
  check_shapes(words, source);
  check_recursion(words);
  check_sharing(words);
  timer.report("all");
  return app::finish("nested", wrong == 0);
}
