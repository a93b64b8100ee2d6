// Modules and functions: images, names, attributes.
// SPDX-License-Identifier: Apache-2.0
#include "table.h"

namespace vgpu::fidelity {
namespace {

constexpr char kPtx[] =
    ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry e() { ret; }\n";
constexpr char kBrokenPtx[] =
    ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry e() { mov.u32 %r0 1; ret; }\n";
constexpr char kFuturePtx[] =
    ".version 99.9\n.target sm_70\n.address_size 64\n.visible .entry e() { ret; }\n";
constexpr char kText[64] = "this is no image";
constexpr char kFile[] = "/nonexistent/file.cubin";

constexpr auto kThreads = CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK;
constexpr auto kShared = CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
constexpr auto kCarveout = CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT;
constexpr auto kMustBeSet = CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET;
constexpr auto kClusterWidth = CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH;
constexpr auto kClusterPolicy = CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE;
constexpr auto kNoAttribute = static_cast<CUfunction_attribute>(999);
constexpr auto kNegative = static_cast<CUfunction_attribute>(-1);
constexpr auto kNoCache = static_cast<CUfunc_cache>(9);
constexpr auto kNoBanks = static_cast<CUsharedconfig>(9);

const Row kRows[] = {
    ROW(kFresh, kNotInit, kDocumented, cuModuleLoad(&w.m, kFile)),
    ROW(kFresh, kNotInit, kDocumented, cuModuleLoadData(&w.m, kPtx)),
    ROW(kFresh, kNotInit, kDocumented, cuModuleLoadDataEx(&w.m, kPtx, 0, nullptr, nullptr)),
    ROW(kFresh, kNotInit, kDocumented, cuModuleLoadFatBinary(&w.m, kPtx)),
    ROW(kFresh, kNotInit, kDocumented, cuModuleUnload(World::garbage<CUmodule>())),
    ROW(kFresh, kNotInit, kDocumented, cuModuleGetLoadingMode(&w.mode)),
    ROW(kFresh, kNotInit, kDocumented, cuModuleGetFunction(&w.f, World::garbage<CUmodule>(), "e")),
    ROW(kFresh, kNotInit, kDocumented,
        cuModuleGetGlobal_v2(&w.p, &w.size, World::garbage<CUmodule>(), "g")),
    ROW(kFresh, kNotInit, kDocumented,
        cuFuncGetAttribute(&w.i, kThreads, World::garbage<CUfunction>())),
    ROW(kFresh, kNotInit, kDocumented,
        cuFuncSetAttribute(World::garbage<CUfunction>(), kShared, 0)),
    ROW(kNoContext, kContext, kDocumented, cuModuleLoadData(&w.m, kPtx)),
    ROW(kNoContext, kContext, kDocumented, cuModuleLoadDataEx(&w.m, kPtx, 0, nullptr, nullptr)),
    ROW(kNoContext, kContext, kDocumented, cuModuleLoad(&w.m, kFile)),
    ROW(kNoContext, kOk, kDocumented, cuModuleGetLoadingMode(&w.mode)),
    ROW(kNoContext, kValue, kDocumented, cuModuleGetLoadingMode(nullptr)),

    ROW(kReady, kValue, kDocumented, cuModuleLoadData(nullptr, kPtx)),
    ROW(kReady, kValue, kDocumented, cuModuleLoadData(&w.m, nullptr)),
    ROW(kReady, CUDA_ERROR_INVALID_PTX, kDocumented, cuModuleLoadData(&w.m, kBrokenPtx)),
    ROW(kReady, CUDA_ERROR_UNSUPPORTED_PTX_VERSION, kDocumented,
        cuModuleLoadData(&w.m, kFuturePtx)),
    STEPS(kReady, kOk, kDocumented, "cuModuleLoadData of text that is no image",
          {
            const CUresult got = w.cu->cuModuleLoadData(&w.m, kText);
            return got == CUDA_ERROR_INVALID_IMAGE || got == CUDA_ERROR_INVALID_PTX ? kOk : got;
          }),
    ROW(kReady, kValue, kDocumented, cuModuleLoadDataEx(nullptr, kPtx, 0, nullptr, nullptr)),
    ROW(kReady, kValue, kDocumented, cuModuleLoadDataEx(&w.m, nullptr, 0, nullptr, nullptr)),
    ROW(kReady, kValue, kDocumented, cuModuleLoadDataEx(&w.m, kPtx, 1, nullptr, nullptr)),
    ROW(kReady, CUDA_ERROR_INVALID_PTX, kDocumented,
        cuModuleLoadDataEx(&w.m, kBrokenPtx, 0, nullptr, nullptr)),
    STEPS(kReady, kOk, kDocumented, "cuModuleLoadDataEx explains broken PTX in the error log",
          {
            char log[256] = {};
            CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
            void* values[] = {log, reinterpret_cast<void*>(sizeof(log))};
            const CUresult got = w.cu->cuModuleLoadDataEx(&w.m, kBrokenPtx, 2, options, values);
            return got == CUDA_ERROR_INVALID_PTX && log[0] != '\0' ? kOk : got;
          }),
    ROW(kReady, kValue, kDocumented, cuModuleLoadFatBinary(nullptr, kPtx)),
    ROW(kReady, kValue, kDocumented, cuModuleLoadFatBinary(&w.m, nullptr)),
    ROW(kReady, kValue, kDocumented, cuModuleLoad(nullptr, kFile)),
    ROW(kReady, kValue, kDocumented, cuModuleLoad(&w.m, nullptr)),
    ROW(kReady, CUDA_ERROR_FILE_NOT_FOUND, kDocumented, cuModuleLoad(&w.m, kFile)),
    ROW(kReady, CUDA_ERROR_FILE_NOT_FOUND, kDocumented, cuModuleLoad(&w.m, "")),
    ROW(kReady, kHandle, kOurs, cuModuleUnload(nullptr)),
    ROW(kReady, kHandle, kOurs, cuModuleUnload(w.unloaded)),
    ROW(kReady, kHandle, kOurs, cuModuleUnload(World::garbage<CUmodule>())),
    STEPS(kReady, CUDA_ERROR_NOT_PERMITTED, kDocumented, "cuModuleUnload of a library's module",
          {
            (void)w.cu->cuLibraryGetModule(&w.m, w.library);
            return w.cu->cuModuleUnload(w.m);
          }),
    ROW(kReady, kValue, kDocumented, cuModuleGetLoadingMode(nullptr)),
    ROW(kReady, kValue, kDocumented, cuModuleGetFunction(nullptr, w.module, "fill")),
    ROW(kReady, kValue, kDocumented, cuModuleGetFunction(&w.f, w.module, nullptr)),
    ROW(kReady, kNotFound, kDocumented, cuModuleGetFunction(&w.f, w.module, "")),
    ROW(kReady, kNotFound, kDocumented, cuModuleGetFunction(&w.f, w.module, "missing")),
    ROW(kReady, kNotFound, kDocumented, cuModuleGetFunction(&w.f, w.module, "counter")),
    ROW(kReady, kHandle, kOurs, cuModuleGetFunction(&w.f, nullptr, "fill")),
    ROW(kReady, kHandle, kOurs, cuModuleGetFunction(&w.f, w.unloaded, "fill")),
    ROW(kReady, kHandle, kOurs, cuModuleGetFunction(&w.f, World::garbage<CUmodule>(), "fill")),
    ROW(kReady, kValue, kDocumented, cuModuleGetFunctionCount(nullptr, w.module)),
    ROW(kReady, kHandle, kDocumented, cuModuleGetFunctionCount(&w.u, nullptr)),
    ROW(kReady, kHandle, kDocumented, cuModuleGetFunctionCount(&w.u, w.unloaded)),
    ROW(kReady, kHandle, kDocumented, cuModuleEnumerateFunctions(&w.f, 1, nullptr)),
    ROW(kReady, kHandle, kDocumented, cuModuleEnumerateFunctions(&w.f, 1, w.unloaded)),
    ROW(kReady, kValue, kDocumented, cuModuleEnumerateFunctions(nullptr, 1, w.module)),
    ROW(kReady, kOk, kDocumented, cuModuleEnumerateFunctions(&w.f, 1, w.module)),
    ROW(kReady, kOk, kConfirmed, cuModuleGetGlobal_v2(nullptr, nullptr, w.module, "counter")),
    ROW(kReady, kOk, kDocumented, cuModuleGetGlobal_v2(&w.p, nullptr, w.module, "counter")),
    ROW(kReady, kOk, kDocumented, cuModuleGetGlobal_v2(nullptr, &w.size, w.module, "counter")),
    ROW(kReady, kNotFound, kDocumented, cuModuleGetGlobal_v2(&w.p, &w.size, w.module, "missing")),
    ROW(kReady, kNotFound, kDocumented, cuModuleGetGlobal_v2(&w.p, &w.size, w.module, "fill")),
    ROW(kReady, kNotFound, kDocumented, cuModuleGetGlobal_v2(&w.p, &w.size, w.module, "")),
    ROW(kReady, kValue, kDocumented, cuModuleGetGlobal_v2(&w.p, &w.size, w.module, nullptr)),
    ROW(kReady, kHandle, kOurs, cuModuleGetGlobal_v2(&w.p, &w.size, w.unloaded, "counter")),

    ROW(kReady, kValue, kDocumented, cuFuncGetAttribute(nullptr, kThreads, w.fill)),
    ROW(kReady, kValue, kDocumented, cuFuncGetAttribute(&w.i, kNoAttribute, w.fill)),
    ROW(kReady, kValue, kDocumented, cuFuncGetAttribute(&w.i, kNegative, w.fill)),
    ROW(kReady, kHandle, kDocumented, cuFuncGetAttribute(&w.i, kThreads, nullptr)),
    ROW(kReady, kHandle, kDocumented, cuFuncGetAttribute(&w.i, kThreads, w.lost_function)),
    ROW(kReady, kHandle, kOurs, cuFuncGetAttribute(&w.i, kThreads, World::garbage<CUfunction>())),
    ROW(kReady, kValue, kDocumented, cuFuncSetAttribute(w.fill, kNoAttribute, 1)),
    ROW(kReady, kValue, kDocumented, cuFuncSetAttribute(w.fill, kThreads, 64)),
    ROW(kReady, kValue, kDocumented, cuFuncSetAttribute(w.fill, CU_FUNC_ATTRIBUTE_NUM_REGS, 64)),
    ROW(kReady, kValue, kDocumented, cuFuncSetAttribute(w.fill, CU_FUNC_ATTRIBUTE_PTX_VERSION, 64)),
    ROW(kReady, kValue, kDocumented, cuFuncSetAttribute(w.fill, kShared, -1)),
    ROW(kReady, kValue, kDocumented, cuFuncSetAttribute(w.fill, kShared, 1 << 30)),
    ROW(kReady, kValue, kDocumented, cuFuncSetAttribute(w.fill, kCarveout, 101)),
    ROW(kReady, kValue, kDocumented, cuFuncSetAttribute(w.fill, kCarveout, -2)),
    ROW(kReady, kValue, kDocumented, cuFuncSetAttribute(w.fill, kMustBeSet, 1)),
    ROW(kReady, kValue, kOurs, cuFuncSetAttribute(w.fill, kClusterWidth, -1)),
    ROW(kReady, kOk, kDocumented, cuFuncSetAttribute(w.fill, kClusterWidth, 0)),
    ROW(kReady, kValue, kOurs, cuFuncSetAttribute(w.fill, kClusterPolicy, 3)),
    ROW(kReady, kOk, kDocumented, cuFuncSetAttribute(w.fill, kClusterPolicy, 0)),
    ROW(kReady, kHandle, kDocumented, cuFuncSetAttribute(nullptr, kShared, 0)),
    ROW(kReady, kHandle, kDocumented, cuFuncSetAttribute(w.lost_function, kShared, 0)),
    ROW(kReady, kValue, kDocumented, cuFuncSetCacheConfig(w.fill, kNoCache)),
    ROW(kReady, kHandle, kOurs, cuFuncSetCacheConfig(nullptr, CU_FUNC_CACHE_PREFER_L1)),
    ROW(kReady, kValue, kDocumented, cuFuncSetSharedMemConfig(w.fill, kNoBanks)),
    ROW(kReady, kValue, kDocumented, cuFuncGetModule(nullptr, w.fill)),
    ROW(kReady, kHandle, kOurs, cuFuncGetModule(&w.m, w.lost_function)),
    ROW(kReady, kValue, kDocumented, cuFuncGetName(nullptr, w.fill)),
    ROW(kReady, kValue, kDocumented, cuFuncGetName(&w.text, nullptr)),
    ROW(kReady, kHandle, kOurs, cuFuncGetName(&w.text, w.lost_function)),
    ROW(kReady, kValue, kDocumented, cuFuncGetParamInfo(w.fill, 3, &w.size, &w.size2)),
    ROW(kReady, kValue, kDocumented, cuFuncGetParamInfo(w.fill, SIZE_MAX, &w.size, &w.size2)),
    ROW(kReady, kValue, kDocumented, cuFuncGetParamInfo(w.fill, 0, nullptr, &w.size2)),
    ROW(kReady, kOk, kDocumented, cuFuncGetParamInfo(w.fill, 2, &w.size, nullptr)),
    ROW(kReady, kValue, kDocumented, cuFuncIsLoaded(nullptr, w.fill)),
    ROW(kReady, kHandle, kDocumented, cuFuncIsLoaded(&w.loaded, w.lost_function)),
    ROW(kReady, kHandle, kDocumented, cuFuncLoad(w.lost_function)),
    ROW(kReady, kOk, kDocumented, cuFuncLoad(w.fill)),

    ROW(kDead, kDestroyed, kDocumented, cuModuleLoadData(&w.m, kPtx)),
    ROW(kFault, kIllegal, kDocumented, cuModuleLoadData(&w.m, kPtx)),
    ROW(kFault, kIllegal, kDocumented, cuModuleGetGlobal_v2(&w.p, &w.size, w.module, "counter")),
    ROW(kForked, kNotInit, kOurs, cuModuleLoadData(&w.m, kPtx)),
    ROW(kForked, kNotInit, kOurs, cuModuleGetFunction(&w.f, w.module, "fill")),
};

}  // namespace

const std::span<const Row> kModuleRows = kRows;

}  // namespace vgpu::fidelity
