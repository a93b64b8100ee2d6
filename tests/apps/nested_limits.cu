// Kernels that launch kernels: what is refused, how much there may be of it, and faults.
// SPDX-License-Identifier: Apache-2.0
#include "app.h"

constexpr int kPending = 64;

__global__ void nothing() {}

__global__ void fault(int* nowhere) { *nowhere = 1; }

__global__ void faulty_parent() { fault<<<1, 1>>>(nullptr); }

__global__ __launch_bounds__(128) void bounded(int* words) { words[0] = 1; }

// Launches that cannot begin: `wanted` of them; what each says.
__global__ void fill_places(int* errors, int wanted) {
  for (int i = 0; i < wanted; ++i) {
    nothing<<<1, 1, 0, cudaStreamTailLaunch>>>();
    errors[i] = cudaGetLastError();
  }
}

__global__ void deeper(int* words, int depth) {
  words[0] = depth;
  deeper<<<1, 1>>>(words, depth + 1);
  words[1] = cudaGetLastError();
}

__global__ void refused(int* words) {
  cudaStream_t stream = nullptr;
  cudaEvent_t event = nullptr;
  int n = 0;
  words[n++] = cudaStreamCreateWithFlags(&stream, cudaStreamDefault);
  words[n++] = cudaEventCreateWithFlags(&event, cudaEventDefault);
  words[n++] = cudaPeekAtLastError();
  words[n++] = cudaGetLastError();
  words[n++] = cudaGetLastError();
  nothing<<<1, 2048>>>();
  words[n++] = cudaGetLastError();
  nothing<<<0, 1>>>();
  words[n++] = cudaGetLastError();
  nothing<<<1, 1, 1 << 20>>>();
  words[n++] = cudaGetLastError();
  bounded<<<1, 256>>>(words);
  words[n++] = cudaGetLastError();
  cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
  words[n++] = cudaEventRecord(event, cudaStreamTailLaunch);
  words[n++] = cudaStreamWaitEvent(cudaStreamFireAndForget, event, 0);
  words[n++] = cudaStreamWaitEvent(stream, event, 0);  // never recorded: nothing to wait for
  words[n++] = cudaStreamDestroy(stream);
  words[n++] = cudaStreamDestroy(stream);
  nothing<<<1, 1, 0, stream>>>();
  words[n++] = cudaGetLastError();
  words[n++] = cudaEventDestroy(event);
  words[n++] = cudaEventRecord(event, nullptr);
}

// Errors are each thread's own.
__global__ void errors_of_threads(int* words) {
  if (threadIdx.x % 2 == 1) nothing<<<1, 4096>>>();
  words[threadIdx.x] = cudaGetLastError();
}

__global__ void events(int* words) {
  cudaEvent_t event = nullptr;
  int made = 0;
  while (cudaEventCreateWithFlags(&event, cudaEventDisableTiming) == cudaSuccess) ++made;
  words[0] = made;
  words[1] = cudaGetLastError();
}

__global__ void ask(int* words, size_t* limit) {
  cudaFuncAttributes attributes;
  words[0] = cudaFuncGetAttributes(&attributes, bounded);
  words[1] = attributes.maxThreadsPerBlock;
  words[2] = attributes.binaryVersion;
  words[3] = cudaDeviceGetAttribute(&words[4], cudaDevAttrMultiProcessorCount, 0);
  words[5] = cudaGetDeviceCount(&words[6]);
  words[7] = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&words[8], bounded, 64, 1024);
  words[9] = cudaDeviceGetLimit(limit, cudaLimitDevRuntimePendingLaunchCount);
  size_t depth = 0;
  words[10] = cudaDeviceGetLimit(&depth, cudaLimitDevRuntimeSyncDepth);
  words[11] = cudaGetDevice(&words[12]);
  words[13] = cudaDeviceGetAttribute(&words[14], cudaDevAttrMultiProcessorCount, 99);
}

namespace {

int wrong = 0;

void expect(bool good, const char* what) {
  std::printf("%s: %s\n", what, good ? "right" : "WRONG");
  wrong += good ? 0 : 1;
}

void check_refusals(int* words) {
  refused<<<1, 1>>>(words);
  CHECKED(cudaDeviceSynchronize());
  const int invalid = cudaErrorInvalidValue, shape = cudaErrorInvalidConfiguration;
  const int want[] = {invalid, invalid, invalid,
                      invalid, 0,       shape,
                      shape,   shape,   cudaErrorLaunchOutOfResources,
                      invalid, invalid, 0,
                      0,       invalid, invalid,
                      0,       invalid};
  int bad = 0;
  for (size_t i = 0; i < sizeof want / sizeof want[0]; ++i) {
    if (words[i] != want[i]) std::printf("call %zu: %d, not %d\n", i, words[i], want[i]);
    bad += words[i] != want[i];
  }
  expect(bad == 0, "what is refused");
  errors_of_threads<<<1, 64>>>(words);
  CHECKED(cudaDeviceSynchronize());
  bad = 0;
  for (int i = 0; i < 64; ++i) bad += words[i] != (i % 2 == 1 ? shape : 0);
  expect(bad == 0, "errors are each thread's own");
}

void check_answers(int* words, size_t* limit) {
  ask<<<1, 1>>>(words, limit);
  CHECKED(cudaDeviceSynchronize());
  int sms = 0, devices = 0, blocks = 0;
  cudaFuncAttributes attributes;
  CHECKED(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0));
  CHECKED(cudaGetDeviceCount(&devices));
  CHECKED(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, bounded, 64, 1024));
  CHECKED(cudaFuncGetAttributes(&attributes, bounded));
  expect(words[0] == 0 && words[1] == 128 && words[2] == attributes.binaryVersion &&
             words[3] == 0 && words[4] == sms && words[5] == 0 && words[6] >= devices &&
             words[7] == 0 && words[8] == blocks && words[9] == 0 && *limit == 2048 &&
             words[10] == cudaErrorUnsupportedLimit && words[11] == 0 && words[12] == 0 &&
             words[13] == cudaErrorInvalidDevice,
         "questions");
}

void check_depth(int* words) {
  deeper<<<1, 1>>>(words, 0);
  CHECKED(cudaDeviceSynchronize());
  expect(words[0] == 24, "24 levels below the host's");
}

void check_places(int* words) {
  size_t limit = 0;
  CHECKED(cudaDeviceGetLimit(&limit, cudaLimitDevRuntimePendingLaunchCount));
  expect(limit == 2048, "2048 launches may wait");
  expect(cudaDeviceSetLimit(cudaLimitDevRuntimeSyncDepth, 4) == cudaErrorUnsupportedLimit,
         "no limit for what is gone");
  cudaGetLastError();
  CHECKED(cudaDeviceSetLimit(cudaLimitDevRuntimePendingLaunchCount, kPending));
  CHECKED(cudaDeviceGetLimit(&limit, cudaLimitDevRuntimePendingLaunchCount));
  expect(limit == kPending, "a lower limit");
  int bad = 0;
  for (int round = 0; round < 2; ++round) {  // the second time the places are free again
    fill_places<<<1, 1>>>(words, kPending + 8);
    CHECKED(cudaDeviceSynchronize());
    for (int i = 0; i < kPending + 8; ++i)
      bad += words[i] != (i < kPending ? cudaSuccess : cudaErrorLaunchOutOfResources);
  }
  expect(bad == 0, "launches beyond it fail");
  for (int round = 0; round < 2; ++round) {
    events<<<1, 1>>>(words);
    CHECKED(cudaDeviceSynchronize());
    bad += words[0] != 2 * kPending || words[1] != cudaErrorMemoryAllocation;
  }
  expect(bad == 0, "twice as many events");
}

// A child's fault is the program's, and stays.
void check_fault() {
  faulty_parent<<<1, 1>>>();
  const cudaError_t first = cudaGetLastError();
  const cudaError_t second = cudaDeviceSynchronize();
  nothing<<<1, 1>>>();
  const cudaError_t third = cudaGetLastError();
  std::printf("%s, %s, %s\n", cudaGetErrorName(first), cudaGetErrorName(second),
              cudaGetErrorName(third));
  expect(
      first == cudaSuccess && second == cudaErrorIllegalAddress && third == cudaErrorIllegalAddress,
      "a child's fault");
}

}  // namespace

int main() {
  int* words = nullptr;
  size_t* limit = nullptr;
  CHECKED(cudaMallocManaged(&words, 256 * sizeof(int)));
  CHECKED(cudaMallocManaged(&limit, sizeof *limit));
  check_refusals(words);
  check_answers(words, limit);
  check_depth(words);
  check_places(words);
  check_fault();
  return app::finish("nested_limits", wrong == 0);
}
