// A guest that leaves a pattern in all its memory, or looks for it in what it is given. What it
// prints is for fresh_memory_test.py. SPDX-License-Identifier: Apache-2.0
// usage: fresh_guest LIBRARY leave|keep|look
// leave: ends without freeing half of it. keep: frees all, says "ready" and ends with its input.
#include <cuda.h>

#include <algorithm>
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

constexpr size_t kBytes = 8 << 20;  // of each block
constexpr uint64_t kPattern = 0x5ec2e7a55ec2e7a5;

vgpu::DriverTable g_cuda;

void check(CUresult result, const char* what) {
  if (result == CUDA_SUCCESS) return;
  std::printf("%s gives %d\n", what, static_cast<int>(result));
  std::exit(2);
}

// Memory of one kind: the host reads and writes it by these.
struct Block {
  std::function<CUresult(const void*)> write;
  std::function<CUresult(void*)> read;
  std::function<void()> free;
};
using Make = CUresult (*)(Block*);

void linear(CUdeviceptr at, Block* block) {
  block->write = [at](const void* from) { return g_cuda.cuMemcpyHtoD_v2(at, from, kBytes); };
  block->read = [at](void* to) { return g_cuda.cuMemcpyDtoH_v2(to, at, kBytes); };
}

void on_host(void* at, Block* block) {
  block->write = [at](const void* from) { return std::memcpy(at, from, kBytes), CUDA_SUCCESS; };
  block->read = [at](void* to) { return std::memcpy(to, at, kBytes), CUDA_SUCCESS; };
}

CUresult plain(Block* block) {
  CUdeviceptr at = 0;
  const CUresult result = g_cuda.cuMemAlloc_v2(&at, kBytes);
  linear(at, block);
  block->free = [at] { check(g_cuda.cuMemFree_v2(at), "cuMemFree"); };
  return result;
}

CUresult pitched(Block* block) {
  CUdeviceptr at = 0;
  size_t pitch = 0;
  const CUresult result = g_cuda.cuMemAllocPitch_v2(&at, &pitch, 4096, kBytes / 4096, 4);
  linear(at, block);
  block->free = [at] { check(g_cuda.cuMemFree_v2(at), "cuMemFree"); };
  return result;
}

CUresult pooled(Block* block) {
  CUdeviceptr at = 0;
  const CUresult result = g_cuda.cuMemAllocAsync(&at, kBytes, nullptr);
  linear(at, block);
  block->free = [at] { check(g_cuda.cuMemFreeAsync(at, nullptr), "cuMemFreeAsync"); };
  return result;
}

CUresult of_own_pool(Block* block) {
  CUmemPoolProps properties = {};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CUmemoryPool pool = nullptr;
  check(g_cuda.cuMemPoolCreate(&pool, &properties), "cuMemPoolCreate");
  CUdeviceptr at = 0;
  const CUresult result = g_cuda.cuMemAllocFromPoolAsync(&at, kBytes, pool, nullptr);
  linear(at, block);
  block->free = [at] { check(g_cuda.cuMemFreeAsync(at, nullptr), "cuMemFreeAsync"); };
  return result;
}

CUresult mapped(Block* block) {
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CUmemGenericAllocationHandle handle = 0;
  if (const CUresult r = g_cuda.cuMemCreate(&handle, kBytes, &properties, 0); r != CUDA_SUCCESS)
    return r;
  CUdeviceptr at = 0;
  CUmemAccessDesc access = {properties.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  check(g_cuda.cuMemAddressReserve(&at, kBytes, 0, 0, 0), "cuMemAddressReserve");
  check(g_cuda.cuMemMap(at, kBytes, 0, handle, 0), "cuMemMap");
  check(g_cuda.cuMemSetAccess(at, kBytes, &access, 1), "cuMemSetAccess");
  linear(at, block);
  block->free = [at, handle] {
    check(g_cuda.cuMemUnmap(at, kBytes), "cuMemUnmap");
    check(g_cuda.cuMemRelease(handle), "cuMemRelease");
  };
  return CUDA_SUCCESS;
}

CUresult array(Block* block) {
  const CUDA_ARRAY_DESCRIPTOR shape = {4096, kBytes / 4096, CU_AD_FORMAT_UNSIGNED_INT8, 1};
  CUarray made = nullptr;
  const CUresult result = g_cuda.cuArrayCreate_v2(&made, &shape);
  CUDA_MEMCPY2D box = {};
  box.WidthInBytes = 4096;
  box.Height = kBytes / 4096;
  block->write = [made, box](const void* from) mutable {
    box.srcMemoryType = CU_MEMORYTYPE_HOST;
    box.srcHost = from;
    box.dstMemoryType = CU_MEMORYTYPE_ARRAY;
    box.dstArray = made;
    return g_cuda.cuMemcpy2D_v2(&box);
  };
  block->read = [made, box](void* to) mutable {
    box.srcMemoryType = CU_MEMORYTYPE_ARRAY;
    box.srcArray = made;
    box.dstMemoryType = CU_MEMORYTYPE_HOST;
    box.dstHost = to;
    return g_cuda.cuMemcpy2D_v2(&box);
  };
  block->free = [made] { check(g_cuda.cuArrayDestroy(made), "cuArrayDestroy"); };
  return result;
}

CUresult of_graph(Block* block) {
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  CUgraphNode node = nullptr;
  CUDA_MEM_ALLOC_NODE_PARAMS params = {};
  params.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  params.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  params.bytesize = kBytes;
  check(g_cuda.cuGraphCreate(&graph, 0), "cuGraphCreate");
  if (const CUresult r = g_cuda.cuGraphAddMemAllocNode(&node, graph, nullptr, 0, &params);
      r != CUDA_SUCCESS)
    return r;
  check(g_cuda.cuGraphInstantiateWithFlags(&exec, graph, 0), "cuGraphInstantiate");
  check(g_cuda.cuGraphLaunch(exec, nullptr), "cuGraphLaunch");
  linear(params.dptr, block);
  block->free = [at = params.dptr] { check(g_cuda.cuMemFree_v2(at), "cuMemFree"); };
  return CUDA_SUCCESS;
}

CUresult managed(Block* block) {
  CUdeviceptr at = 0;
  const CUresult result = g_cuda.cuMemAllocManaged(&at, kBytes, CU_MEM_ATTACH_GLOBAL);
  on_host(reinterpret_cast<void*>(at), block);
  block->free = [at] { check(g_cuda.cuMemFree_v2(at), "cuMemFree"); };
  return result;
}

CUresult pinned(Block* block) {
  void* at = nullptr;
  const CUresult result = g_cuda.cuMemHostAlloc(&at, kBytes, CU_MEMHOSTALLOC_DEVICEMAP);
  on_host(at, block);
  block->free = [at] { check(g_cuda.cuMemFreeHost(at), "cuMemFreeHost"); };
  return result;
}

CUresult variable(Block* block) {
  const std::string text =
      ".version 8.0\n.target sm_52\n.address_size 64\n.visible .global .align 8 .b8 room[" +
      std::to_string(kBytes) + "];\n";
  CUmodule module = nullptr;
  if (const CUresult r = g_cuda.cuModuleLoadData(&module, text.c_str()); r != CUDA_SUCCESS)
    return r;
  CUdeviceptr at = 0;
  size_t bytes = 0;
  check(g_cuda.cuModuleGetGlobal_v2(&at, &bytes, module, "room"), "cuModuleGetGlobal");
  linear(at, block);
  block->free = [module] { check(g_cuda.cuModuleUnload(module), "cuModuleUnload"); };
  return CUDA_SUCCESS;
}

const std::pair<const char*, Make> kKinds[] = {{"cuMemAlloc", plain},
                                               {"cuMemAllocPitch", pitched},
                                               {"cuMemAllocAsync", pooled},
                                               {"cuMemAllocFromPoolAsync", of_own_pool},
                                               {"cuMemCreate", mapped},
                                               {"cuArrayCreate", array},
                                               {"an allocation node", of_graph},
                                               {"a variable", variable},
                                               {"cuMemAllocManaged", managed},
                                               {"cuMemHostAlloc", pinned}};

// Until no more fits; of the kinds that this server has. The host's memory: one block.
std::vector<Block> take_all(const std::pair<const char*, Make>& kind) {
  std::vector<Block> blocks;
  const bool hosts = kind.second == managed || kind.second == pinned;
  for (;;) {
    Block block;
    const CUresult result = kind.second(&block);
    if (result == CUDA_ERROR_NOT_SUPPORTED) return {};
    if (result == CUDA_ERROR_OUT_OF_MEMORY) return blocks;
    check(result, kind.first);
    blocks.push_back(std::move(block));
    if (hosts) return blocks;
  }
}

void free_all(std::vector<Block>* blocks) {
  for (const Block& block : *blocks) block.free();
  check(g_cuda.cuCtxSynchronize(), "cuCtxSynchronize");
  CUmemoryPool pool = nullptr;
  check(g_cuda.cuDeviceGetDefaultMemPool(&pool, 0), "cuDeviceGetDefaultMemPool");
  check(g_cuda.cuMemPoolTrimTo(pool, 0), "cuMemPoolTrimTo");
  check(g_cuda.cuDeviceGraphMemTrim(0), "cuDeviceGraphMemTrim");
  blocks->clear();
}

void leave(bool keeps) {
  const std::vector<uint64_t> pattern(kBytes / 8, kPattern);
  for (const auto& kind : kKinds) {
    std::vector<Block> blocks = take_all(kind);
    for (const Block& block : blocks) check(block.write(pattern.data()), kind.first);
    check(g_cuda.cuCtxSynchronize(), "cuCtxSynchronize");
    std::printf("%s: %zu blocks\n", kind.first, blocks.size());
    if (!keeps && kind.second == pinned) return;  // and whatever is there ends with the process
    free_all(&blocks);
  }
}

// What is written in a block is what is read there; not the pattern, or the next kind would show
// it.
void check_that_it_would_be_seen(const Block& block, std::vector<uint64_t>* words) {
  const std::vector<uint64_t> own(words->size(), ~kPattern);
  check(block.write(own.data()), "writing");
  check(block.read(words->data()), "reading");
  if (*words != own) check(CUDA_ERROR_UNKNOWN, "looking at what was written");
}

int look() {
  int found = 0;
  std::vector<uint64_t> words(kBytes / 8);
  for (const auto& kind : kKinds) {
    std::vector<Block> blocks = take_all(kind);
    size_t seen = 0;
    for (const Block& block : blocks) {
      check(block.read(words.data()), kind.first);
      seen += static_cast<size_t>(std::count(words.begin(), words.end(), kPattern));
    }
    std::printf("%s: %zu blocks, %zu words of another's\n", kind.first, blocks.size(), seen);
    if (!blocks.empty()) check_that_it_would_be_seen(blocks.front(), &words);
    found += seen != 0;
    // What was the guest's own is not cleared for it: all that follows is of new memory only where
    // it is given back.
    free_all(&blocks);
  }
  return found == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  if (const char* why = vgpu::load_driver_table(argv[1], &g_cuda); why != nullptr) {
    std::printf("%s: %s\n", argv[1], why);
    return 2;
  }
  CUcontext context = nullptr;
  check(g_cuda.cuInit(0), "cuInit");
  check(g_cuda.cuDevicePrimaryCtxRetain(&context, 0), "cuDevicePrimaryCtxRetain");
  check(g_cuda.cuCtxSetCurrent(context), "cuCtxSetCurrent");
  const std::string what = argv[2];
  if (what == "look") return look();
  leave(what == "keep");
  std::printf("ready\n");
  std::fflush(stdout);
  if (what == "keep") (void)std::getchar();
  return 0;
}
