// Does what programs do again and again, a family at a time: what it costs is counted
// (family_trips_test.py). SPDX-License-Identifier: Apache-2.0
// Usage: driver_families [FAMILY ROUNDS]; without arguments each once.
#include <cuda.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "driver_app.h"

namespace {

constexpr char kPtx[] = R"(.version 7.0
.target sm_50
.address_size 64
.visible .entry add_one(.param .u64 data)
{
  .reg .u64 %rd<3>;
  .reg .u32 %r<3>;
  ld.param.u64 %rd1, [data];
  cvta.to.global.u64 %rd2, %rd1;
  ld.global.u32 %r1, [%rd2];
  add.u32 %r2, %r1, 1;
  st.global.u32 [%rd2], %r2;
  ret;
}
)";
constexpr int kGraphNodes = 1000;

struct World {
  CUdevice device = 0;
  CUcontext context = nullptr;
  CUstream stream = nullptr;
  CUevent event = nullptr;
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  CUdeviceptr memory = 0;
  CUgraphExec graph = nullptr;
  void* pinned = nullptr;

  void launch() {
    void* params[] = {&memory};
    CHECKED(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, params, nullptr));
  }
};

void streams(World&) {
  CUstream made;
  CHECKED(cuStreamCreate(&made, CU_STREAM_NON_BLOCKING));
  CHECKED(cuStreamDestroy(made));
}

void events(World& world) {
  CUevent made;
  CHECKED(cuEventCreate(&made, CU_EVENT_DISABLE_TIMING));
  CHECKED(cuEventRecord(made, world.stream));
  CHECKED(cuStreamWaitEvent(world.stream, made, 0));
  CHECKED(cuEventDestroy(made));
}

void memory(World&) {
  CUdeviceptr small, large;
  CHECKED(cuMemAlloc(&small, 1000));
  CHECKED(cuMemAlloc(&large, size_t{4} << 20));
  CHECKED(cuMemFree(small));
  CHECKED(cuMemFree(large));
}

void pools(World& world) {
  CUdeviceptr made;
  CHECKED(cuMemAllocAsync(&made, 100000, world.stream));
  CHECKED(cuMemFreeAsync(made, world.stream));
}

void launches(World& world) { world.launch(); }

void fills(World& world) {
  CHECKED(cuMemsetD32Async(world.memory, 7, 256, world.stream));
  CHECKED(cuMemsetD2D8Async(world.memory, 64, 1, 32, 16, world.stream));
}

void copies(World& world) {
  char ordinary[256] = {};
  CHECKED(cuMemcpyHtoDAsync(world.memory, ordinary, sizeof(ordinary), world.stream));
  CHECKED(cuMemcpyDtoDAsync(world.memory, world.memory + 512, 256, world.stream));
  CHECKED(cuMemcpyHtoDAsync(world.memory, world.pinned, 1024, world.stream));
  CHECKED(cuMemcpyDtoHAsync(world.pinned, world.memory, 1024, world.stream));
}

void queries(World& world) {
  int value;
  CUcontext current;
  CUdevice device;
  size_t bytes;
  CUdeviceptr base;
  unsigned type;
  CHECKED(cuCtxGetCurrent(&current));
  CHECKED(cuCtxGetDevice(&device));
  CHECKED(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_WARP_SIZE, device));
  CHECKED(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_NUM_REGS, world.function));
  CHECKED(cuOccupancyMaxActiveBlocksPerMultiprocessor(&value, world.function, 128, 0));
  CHECKED(cuMemGetAddressRange(&base, &bytes, world.memory));
  CHECKED(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, world.memory));
}

void addresses(World&) {
  CUdeviceptr range;
  CHECKED(cuMemAddressReserve(&range, size_t{8} << 20, 0, 0, 0));
  CHECKED(cuMemAddressFree(range, size_t{8} << 20));
}

void graphs(World& world) { CHECKED(cuGraphLaunch(world.graph, world.stream)); }

void captures(World& world) {
  CUgraph graph;
  CHECKED(cuStreamBeginCapture(world.stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  world.launch();
  CHECKED(cuStreamEndCapture(world.stream, &graph));
  CHECKED(cuGraphDestroy(graph));
}

void operations(World& world) {
  CHECKED(cuStreamWriteValue32(world.stream, world.memory, 3, 0));
  CHECKED(cuStreamWaitValue32(world.stream, world.memory, 3, CU_STREAM_WAIT_VALUE_EQ));
}

struct Family {
  const char* name;
  void (*round)(World&);
};
constexpr Family kFamilies[] = {
    {"streams", streams}, {"events", events},     {"memory", memory},
    {"pools", pools},     {"launches", launches}, {"fills", fills},
    {"copies", copies},   {"queries", queries},   {"addresses", addresses},
    {"graphs", graphs},   {"captures", captures}, {"operations", operations},
};

void set_up(World* world) {
  CHECKED(cuInit(0));
  CHECKED(cuDeviceGet(&world->device, 0));
  CHECKED(cuDevicePrimaryCtxRetain(&world->context, world->device));
  CHECKED(cuCtxSetCurrent(world->context));
  CHECKED(cuStreamCreate(&world->stream, CU_STREAM_NON_BLOCKING));
  CHECKED(cuModuleLoadData(&world->module, kPtx));
  CHECKED(cuModuleGetFunction(&world->function, world->module, "add_one"));
  CHECKED(cuMemAlloc(&world->memory, 4096));
  CHECKED(cuMemsetD8(world->memory, 0, 4096));
  CHECKED(cuMemAllocHost(&world->pinned, 4096));
  std::memset(world->pinned, 0, 4096);
  CUgraph graph;
  CHECKED(cuGraphCreate(&graph, 0));
  CUgraphNode last = nullptr;
  for (int i = 0; i < kGraphNodes; ++i) {
    CUDA_KERNEL_NODE_PARAMS params = {};
    void* values[] = {&world->memory};
    params.func = world->function;
    params.gridDimX = params.gridDimY = params.gridDimZ = 1;
    params.blockDimX = params.blockDimY = params.blockDimZ = 1;
    params.kernelParams = values;
    const CUgraphNode before = last;
    CHECKED(cuGraphAddKernelNode(&last, graph, &before, before == nullptr ? 0 : 1, &params));
  }
  CHECKED(cuGraphInstantiate(&world->graph, graph, 0));
  CHECKED(cuGraphDestroy(graph));
}

}  // namespace

int main(int argc, char** argv) {
  const char* only = argc > 1 ? argv[1] : nullptr;
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 1;
  World world;
  set_up(&world);
  for (const Family& family : kFamilies) {
    if (only != nullptr && std::strcmp(only, family.name) != 0) continue;
    for (int i = 0; i < rounds; ++i) family.round(world);
    CHECKED(cuCtxSynchronize());
    std::printf("%s\n", family.name);
  }
  unsigned value = 0;
  CHECKED(cuMemsetD32(world.memory, 0, 1));
  CHECKED(cuGraphLaunch(world.graph, world.stream));
  CHECKED(cuCtxSynchronize());
  CHECKED(cuMemcpyDtoH(&value, world.memory, sizeof(value)));
  std::printf("the graph counted to %u\n", value);
  return value == kGraphNodes ? 0 : 1;
}
