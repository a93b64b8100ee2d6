// A guest that goes to one of its limits, and beyond. Ends with 0 when it met it where it should.
// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "api/driver_loader.h"
#include "driver_table.h"

namespace {

constexpr char kForever[] = R"(.version 6.0
.target sm_50
.address_size 64
.visible .entry forever(.param .u64 at) {
  .reg .u64 %rd<2>; .reg .u32 %r<2>; .reg .pred %p<2>;
  ld.param.u64 %rd0, [at];
again:
  ld.volatile.global.u32 %r0, [%rd0];
  setp.eq.u32 %p0, %r0, 0;
  @%p0 bra again;
  ret;
}
.visible .entry nothing() { ret; }
)";

vgpu::DriverTable g_cuda;

[[noreturn]] void fail(const std::string& what) {
  std::printf("%s\n", what.c_str());
  std::exit(1);
}
void expect(const std::string& what, CUresult got, CUresult wanted = CUDA_SUCCESS) {
  if (got != wanted)
    fail(what + ": got " + std::to_string(got) + ", wanted " + std::to_string(wanted));
}

using Undo = std::function<void()>;
using Make = CUresult (*)(Undo* undo);

CUresult stream(Undo* undo) {
  CUstream made = nullptr;
  const CUresult result = g_cuda.cuStreamCreate(&made, CU_STREAM_NON_BLOCKING);
  *undo = [made] { expect("cuStreamDestroy", g_cuda.cuStreamDestroy_v2(made)); };
  return result;
}
CUresult event(Undo* undo) {
  CUevent made = nullptr;
  const CUresult result = g_cuda.cuEventCreate(&made, CU_EVENT_DISABLE_TIMING);
  *undo = [made] { expect("cuEventDestroy", g_cuda.cuEventDestroy_v2(made)); };
  return result;
}
CUresult module(Undo* undo) {
  CUmodule made = nullptr;
  const CUresult result = g_cuda.cuModuleLoadData(&made, kForever);
  *undo = [made] { expect("cuModuleUnload", g_cuda.cuModuleUnload(made)); };
  return result;
}
CUresult library(Undo* undo) {
  CUlibrary made = nullptr;
  const CUresult result =
      g_cuda.cuLibraryLoadData(&made, kForever, nullptr, nullptr, 0, nullptr, nullptr, 0);
  *undo = [made] { expect("cuLibraryUnload", g_cuda.cuLibraryUnload(made)); };
  return result;
}
CUresult array(Undo* undo) {
  const CUDA_ARRAY_DESCRIPTOR shape = {16, 16, CU_AD_FORMAT_UNSIGNED_INT8, 1};
  CUarray made = nullptr;
  const CUresult result = g_cuda.cuArrayCreate_v2(&made, &shape);
  *undo = [made] { expect("cuArrayDestroy", g_cuda.cuArrayDestroy(made)); };
  return result;
}
CUresult physical(Undo* undo) {
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CUmemGenericAllocationHandle made = 0;
  const CUresult result = g_cuda.cuMemCreate(&made, 2 << 20, &properties, 0);
  *undo = [made] { expect("cuMemRelease", g_cuda.cuMemRelease(made)); };
  return result;
}
CUresult pinned(Undo* undo) {
  void* made = nullptr;
  const CUresult result = g_cuda.cuMemHostAlloc(&made, 1 << 20, 0);
  *undo = [made] { expect("cuMemFreeHost", g_cuda.cuMemFreeHost(made)); };
  return result;
}
CUresult managed(Undo* undo) {
  CUdeviceptr made = 0;
  const CUresult result = g_cuda.cuMemAllocManaged(&made, 1 << 20, CU_MEM_ATTACH_GLOBAL);
  *undo = [made] { expect("cuMemFree", g_cuda.cuMemFree_v2(made)); };
  return result;
}

// Exactly `most` of what these make by turns, then none, then one in the place of another.
void meet(const std::string& what, const std::vector<Make>& makes, size_t most) {
  std::vector<Undo> undos;
  for (size_t i = 0; i < most; ++i) {
    Undo undo;
    expect(what + " number " + std::to_string(i + 1), makes[i % makes.size()](&undo));
    undos.push_back(undo);
  }
  Undo undo;
  for (const Make make : makes)
    expect(what + ", one too many", make(&undo), CUDA_ERROR_OUT_OF_MEMORY);
  expect("not sticky", g_cuda.cuCtxSynchronize());
  undos.back()();
  undos.pop_back();
  expect(what + ", after one went", makes[0](&undo));
  undo();
  for (const Undo& each : undos) each();
  expect("at the end", g_cuda.cuCtxSynchronize());
}

CUfunction function(CUmodule code, const char* name) {
  CUfunction found = nullptr;
  expect("cuModuleGetFunction", g_cuda.cuModuleGetFunction(&found, code, name));
  return found;
}

// Short kernels for longer than the limit, which is theirs singly; then one that never ends.
void run_forever() {
  CUmodule code = nullptr;
  expect("cuModuleLoadData", g_cuda.cuModuleLoadData(&code, kForever));
  const CUfunction nothing = function(code, "nothing"), forever = function(code, "forever");
  for (int i = 0; i < 20'000; ++i)
    expect("a short kernel",
           g_cuda.cuLaunchKernel(nothing, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr));
  expect("short kernels", g_cuda.cuCtxSynchronize());
  CUdeviceptr word = 0;
  expect("cuMemAlloc", g_cuda.cuMemAlloc_v2(&word, 4));
  expect("cuMemsetD32", g_cuda.cuMemsetD32_v2(word, 0, 1));
  void* params[] = {&word};
  expect("launch", g_cuda.cuLaunchKernel(forever, 1, 1, 1, 1, 1, 1, 0, nullptr, params, nullptr));
  expect("synchronize", g_cuda.cuCtxSynchronize(), CUDA_ERROR_LAUNCH_TIMEOUT);
  CUdeviceptr more = 0;
  expect("any call", g_cuda.cuMemAlloc_v2(&more, 4), CUDA_ERROR_LAUNCH_TIMEOUT);
}

int run(const std::string& limit, size_t most) {
  CUcontext context = nullptr;
  expect("cuInit", g_cuda.cuInit(0));
  expect("retain", g_cuda.cuDevicePrimaryCtxRetain(&context, 0));
  expect("set current", g_cuda.cuCtxSetCurrent(context));
  if (limit == "streams") meet(limit, {stream}, most);
  if (limit == "events") meet(limit, {event}, most);
  if (limit == "modules") meet(limit, {module, library}, most);
  if (limit == "handles") meet(limit, {stream, event, module, library, array, physical}, most);
  if (limit == "pinned_memory") meet(limit, {pinned, managed}, most);
  if (limit == "launch_seconds") run_forever();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  if (const char* why = vgpu::load_driver_table(argv[1], &g_cuda); why != nullptr) fail(why);
  return run(argv[2], std::strtoul(argv[3], nullptr, 10));
}
