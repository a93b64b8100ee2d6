// A guest that tries every call that takes device memory at the edge of its quota. What it prints
// is for quota_test.py; it ends with 1 at the first surprise. SPDX-License-Identifier: Apache-2.0
#include <cuda.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "api/driver_loader.h"
#include "driver_table.h"

namespace {

constexpr uint64_t kGranule = 2 << 20;

vgpu::DriverTable g_cuda;
CUcontext g_context;

[[noreturn]] void fail(const std::string& what, CUresult result) {
  std::printf("%s: got %d\n", what.c_str(), static_cast<int>(result));
  std::exit(1);
}

void expect(const std::string& what, CUresult got, CUresult wanted) {
  if (got != wanted) fail(what + ": wanted " + std::to_string(wanted), got);
}

// Undoes one allocation.
using Undo = std::function<void()>;

// Takes `bytes`, and gives the way to undo that.
using Take = CUresult (*)(uint64_t bytes, Undo* undo);

CUresult linear(uint64_t bytes, Undo* undo) {
  CUdeviceptr address = 0;
  const CUresult result = g_cuda.cuMemAlloc_v2(&address, bytes);
  *undo = [address] { expect("cuMemFree", g_cuda.cuMemFree_v2(address), CUDA_SUCCESS); };
  return result;
}

CUresult pitched(uint64_t bytes, Undo* undo) {
  CUdeviceptr address = 0;
  size_t pitch = 0;
  const CUresult result = g_cuda.cuMemAllocPitch_v2(&address, &pitch, 4096, bytes / 4096, 4);
  *undo = [address] { expect("cuMemFree", g_cuda.cuMemFree_v2(address), CUDA_SUCCESS); };
  return result;
}

void free_async(CUdeviceptr address) {
  expect("cuMemFreeAsync", g_cuda.cuMemFreeAsync(address, nullptr), CUDA_SUCCESS);
  expect("cuStreamSynchronize", g_cuda.cuStreamSynchronize(nullptr), CUDA_SUCCESS);
}

CUresult async(uint64_t bytes, Undo* undo) {
  CUdeviceptr address = 0;
  const CUresult result = g_cuda.cuMemAllocAsync(&address, bytes, nullptr);
  *undo = [address] { free_async(address); };
  return result;
}

CUresult from_pool(uint64_t bytes, Undo* undo) {
  CUmemPoolProps properties = {};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CUmemoryPool pool = nullptr;
  expect("cuMemPoolCreate", g_cuda.cuMemPoolCreate(&pool, &properties), CUDA_SUCCESS);
  CUdeviceptr address = 0;
  const CUresult result = g_cuda.cuMemAllocFromPoolAsync(&address, bytes, pool, nullptr);
  if (result != CUDA_SUCCESS) (void)g_cuda.cuMemPoolDestroy(pool);
  *undo = [address, pool] {
    free_async(address);
    expect("cuMemPoolDestroy", g_cuda.cuMemPoolDestroy(pool), CUDA_SUCCESS);
  };
  return result;
}

CUresult physical(uint64_t bytes, Undo* undo) {
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CUmemGenericAllocationHandle handle = 0;
  const CUresult result = g_cuda.cuMemCreate(&handle, bytes, &properties, 0);
  *undo = [handle] { expect("cuMemRelease", g_cuda.cuMemRelease(handle), CUDA_SUCCESS); };
  return result;
}

CUDA_ARRAY3D_DESCRIPTOR shape_of(uint64_t bytes) {
  CUDA_ARRAY3D_DESCRIPTOR shape = {};
  shape.Width = 4096;
  shape.Height = bytes / 4096;
  shape.NumChannels = 1;
  shape.Format = CU_AD_FORMAT_UNSIGNED_INT8;
  return shape;
}

CUresult array(uint64_t bytes, Undo* undo) {
  const CUDA_ARRAY3D_DESCRIPTOR shape = shape_of(bytes);
  const CUDA_ARRAY_DESCRIPTOR flat = {shape.Width, shape.Height, shape.Format, shape.NumChannels};
  CUarray made = nullptr;
  const CUresult result = g_cuda.cuArrayCreate_v2(&made, &flat);
  *undo = [made] { expect("cuArrayDestroy", g_cuda.cuArrayDestroy(made), CUDA_SUCCESS); };
  return result;
}

CUresult array_3d(uint64_t bytes, Undo* undo) {
  const CUDA_ARRAY3D_DESCRIPTOR shape = shape_of(bytes);
  CUarray made = nullptr;
  const CUresult result = g_cuda.cuArray3DCreate_v2(&made, &shape);
  *undo = [made] { expect("cuArrayDestroy", g_cuda.cuArrayDestroy(made), CUDA_SUCCESS); };
  return result;
}

CUresult mipmapped(uint64_t bytes, Undo* undo) {
  const CUDA_ARRAY3D_DESCRIPTOR shape = shape_of(bytes);
  CUmipmappedArray made = nullptr;
  const CUresult result = g_cuda.cuMipmappedArrayCreate(&made, &shape, 1);
  *undo = [made] {
    expect("cuMipmappedArrayDestroy", g_cuda.cuMipmappedArrayDestroy(made), CUDA_SUCCESS);
  };
  return result;
}

// A node's memory is taken when the node is added.
CUresult graph_node(uint64_t bytes, Undo* undo) {
  CUgraph graph = nullptr;
  expect("cuGraphCreate", g_cuda.cuGraphCreate(&graph, 0), CUDA_SUCCESS);
  CUDA_MEM_ALLOC_NODE_PARAMS params = {};
  params.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  params.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  params.bytesize = bytes;
  CUgraphNode node = nullptr;
  const CUresult result = g_cuda.cuGraphAddMemAllocNode(&node, graph, nullptr, 0, &params);
  if (result != CUDA_SUCCESS) (void)g_cuda.cuGraphDestroy(graph);
  *undo = [graph] {
    expect("cuGraphDestroy", g_cuda.cuGraphDestroy(graph), CUDA_SUCCESS);
    expect("cuDeviceGraphMemTrim", g_cuda.cuDeviceGraphMemTrim(0), CUDA_SUCCESS);
  };
  return result;
}

std::string code_with(uint64_t variable_bytes) {
  return ".version 8.0\n.target sm_52\n.address_size 64\n.visible .global .align 8 .b8 room[" +
         std::to_string(variable_bytes) + "];\n.visible .entry none() { ret; }\n";
}

CUresult module(uint64_t bytes, Undo* undo) {
  CUmodule loaded = nullptr;
  const CUresult result = g_cuda.cuModuleLoadData(&loaded, code_with(bytes).c_str());
  *undo = [loaded] { expect("cuModuleUnload", g_cuda.cuModuleUnload(loaded), CUDA_SUCCESS); };
  return result;
}

CUresult library(uint64_t bytes, Undo* undo) {
  CUlibrary loaded = nullptr;
  const CUresult result = g_cuda.cuLibraryLoadData(&loaded, code_with(bytes).c_str(), nullptr,
                                                   nullptr, 0, nullptr, nullptr, 0);
  *undo = [loaded] { expect("cuLibraryUnload", g_cuda.cuLibraryUnload(loaded), CUDA_SUCCESS); };
  return result;
}

struct Row {
  const char* name;
  Take take;
  bool maps_only;  // is served only where the guest chooses addresses
  bool apart;  // not out of the guest's allocator: slabs that are partly used keep all of theirs
};
// quota_test.py reads the names out of this text.
const Row kRows[] = {
    {"cuMemAlloc_v2", linear, false, false},
    {"cuMemAllocPitch_v2", pitched, false, false},
    {"cuMemAllocAsync", async, false, false},
    {"cuMemAllocFromPoolAsync", from_pool, false, false},
    {"cuMemCreate", physical, true, true},
    {"cuArrayCreate_v2", array, false, true},
    {"cuArray3DCreate_v2", array_3d, false, true},
    {"cuMipmappedArrayCreate", mipmapped, false, true},
    {"cuGraphAddMemAllocNode", graph_node, false, false},
    {"cuModuleLoadData", module, false, true},
    {"cuLibraryLoadData", library, false, true},
};

uint64_t free_bytes(uint64_t* total) {
  size_t free = 0, all = 0, whole = 0;
  expect("cuMemGetInfo", g_cuda.cuMemGetInfo_v2(&free, &all), CUDA_SUCCESS);
  expect("cuDeviceTotalMem", g_cuda.cuDeviceTotalMem_v2(&whole, 0), CUDA_SUCCESS);
  if (all != whole) fail("cuMemGetInfo and cuDeviceTotalMem differ", CUDA_ERROR_UNKNOWN);
  *total = all;
  return free;
}

// Leaves exactly `left` bytes of the quota, tries what needs more, then what fits.
void try_row(const Row& row, uint64_t quota, uint64_t left, uint64_t bytes, bool fits) {
  const std::string what = std::string(row.name) + " of " + std::to_string(bytes) + " with " +
                           std::to_string(left) + " left";
  Undo free_filler, undo;
  expect(what + ", filler", linear(quota - left, &free_filler), CUDA_SUCCESS);
  expect(what, row.take(bytes, &undo), fits ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY);
  if (fits) undo();
  // Not sticky: everything goes on.
  expect(what + ", then synchronizing", g_cuda.cuCtxSynchronize(), CUDA_SUCCESS);
  free_filler();
  expect(what + ", with room", row.take(bytes, &undo), CUDA_SUCCESS);
  undo();
}

int run(const char* library) {
  if (const char* why = vgpu::load_driver_table(library, &g_cuda); why != nullptr) {
    std::printf("%s: %s\n", library, why);
    return 1;
  }
  const bool maps = std::getenv("QUOTA_TEST_MAPS") != nullptr;
  const bool slabs = std::getenv("QUOTA_TEST_SLABS") != nullptr;
  expect("cuInit", g_cuda.cuInit(0), CUDA_SUCCESS);
  expect("retain", g_cuda.cuDevicePrimaryCtxRetain(&g_context, 0), CUDA_SUCCESS);
  expect("set current", g_cuda.cuCtxSetCurrent(g_context), CUDA_SUCCESS);
  uint64_t quota = 0;
  if (free_bytes(&quota) != quota) fail("the quota is not free", CUDA_ERROR_UNKNOWN);
  for (const Row& row : kRows) {
    Undo undo;
    if (row.maps_only && !maps) {
      expect(row.name, row.take(kGranule, &undo), CUDA_ERROR_NOT_SUPPORTED);
      continue;
    }
    try_row(row, quota, 0, kGranule, false);
    if (!row.apart || !slabs) try_row(row, quota, kGranule, kGranule, true);
    try_row(row, quota, kGranule, 2 * kGranule, false);
    expect(row.name, row.take(quota + kGranule, &undo), CUDA_ERROR_OUT_OF_MEMORY);
    uint64_t total = 0;
    const uint64_t left = free_bytes(&total);
    if (left != quota) {
      std::printf("%s: %llu of %llu bytes came back\n", row.name,
                  static_cast<unsigned long long>(left), static_cast<unsigned long long>(quota));
      return 1;
    }
    std::printf("%s\n", row.name);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return argc == 2 ? run(argv[1]) : 2; }
