// Batches of copies, and events of the whole context: what they cost is counted (counts_test.py).
// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "driver_app.h"

namespace {

constexpr size_t kBytes = 256;  // of a copy
constexpr size_t kCopies = 8;

// Eight copies of three kinds: in place, on the device, and taken by the call.
struct Batch {
  CUdeviceptr to[kCopies], from[kCopies];
  size_t bytes[kCopies];
  CUmemcpyAttributes attributes[2] = {};
  size_t starts[2] = {0, 6};

  Batch(CUdeviceptr device, const char* pinned, const char* stack) {
    for (size_t i = 0; i < kCopies; ++i) {
      to[i] = device + i * kBytes;
      from[i] = reinterpret_cast<CUdeviceptr>(i < 6 ? pinned + i * kBytes : stack);
      bytes[i] = kBytes;
    }
    from[5] = device + kCopies * kBytes;
    attributes[0].srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
    attributes[1].srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL;
  }
};

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 1;
  CUdevice device;
  CUcontext context;
  CUstream stream;
  CUevent event;
  CUdeviceptr memory, managed;
  void* pinned;
  CHECKED(cuInit(0));
  CHECKED(cuDeviceGet(&device, 0));
  CHECKED(cuDevicePrimaryCtxRetain(&context, device));
  CHECKED(cuCtxSetCurrent(context));
  CHECKED(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CHECKED(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  CHECKED(cuMemAlloc(&memory, (kCopies + 1) * kBytes));
  CHECKED(cuMemAllocManaged(&managed, 4096, CU_MEM_ATTACH_GLOBAL));
  CHECKED(cuMemAllocHost(&pinned, kCopies * kBytes));
  CHECKED(cuMemsetD8(memory, 3, (kCopies + 1) * kBytes));
  std::memset(pinned, 1, kCopies * kBytes);
  char stack[kBytes];
  std::memset(stack, 2, kBytes);
  Batch batch(memory, static_cast<char*>(pinned), stack);
  CUmemLocation here = {CU_MEM_LOCATION_TYPE_DEVICE, device};
  size_t page = 4096, start = 0;
  CHECKED(cuCtxSynchronize());
  for (int round = 0; round < rounds; ++round) {
    CHECKED(cuMemcpyBatchAsync(batch.to, batch.from, batch.bytes, kCopies, batch.attributes,
                               batch.starts, 2, stream));
    CHECKED(cuCtxRecordEvent(context, event));
    CHECKED(cuCtxWaitEvent(context, event));
    CHECKED(cuMemPrefetchBatchAsync(&managed, &page, 1, &here, &start, 1, 0, stream));
    CHECKED(cuMemDiscardBatchAsync(&managed, &page, 1, 0, stream));
  }
  CHECKED(cuStreamSynchronize(stream));
  char out[kCopies * kBytes];
  CHECKED(cuMemcpyDtoH(out, memory, sizeof(out)));
  for (size_t i = 0; i < kCopies; ++i) {
    if (out[i * kBytes] == (i < 5 ? 1 : i == 5 ? 3 : 2)) continue;
    std::printf("copy %zu: %d\n", i, out[i * kBytes]);
    return 1;
  }
  std::printf("batches arrived\n");
  return 0;
}
