// Libraries and kernels, which belong to no context.
// SPDX-License-Identifier: Apache-2.0
#include "table.h"

namespace vgpu::fidelity {
namespace {

constexpr char kPtx[] =
    ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry e() { ret; }\n";
constexpr char kBrokenPtx[] =
    ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry e() { mov.u32 %r0 1; ret; }\n";
constexpr char kFile[] = "/nonexistent/file.cubin";
constexpr CUdevice kFar = 7;

constexpr auto kThreads = CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK;
constexpr auto kShared = CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
constexpr auto kNoAttribute = static_cast<CUfunction_attribute>(999);
constexpr auto kNoCache = static_cast<CUfunc_cache>(9);
constexpr auto kL1 = CU_FUNC_CACHE_PREFER_L1;

// Loading without options.
CUresult load(World& w, CUlibrary* out, const void* code) {
  return w.cu->cuLibraryLoadData(out, code, nullptr, nullptr, 0, nullptr, nullptr, 0);
}
CUresult load_file(World& w, CUlibrary* out, const char* path) {
  return w.cu->cuLibraryLoadFromFile(out, path, nullptr, nullptr, 0, nullptr, nullptr, 0);
}

const Row kRows[] = {
    STEPS(kFresh, kNotInit, kDocumented, "cuLibraryLoadData", { return load(w, &w.l, kPtx); }),
    STEPS(kFresh, kNotInit, kDocumented, "cuLibraryLoadFromFile",
          { return load_file(w, &w.l, kFile); }),
    ROW(kFresh, kNotInit, kDocumented, cuLibraryUnload(World::garbage<CUlibrary>())),
    ROW(kFresh, kNotInit, kDocumented, cuLibraryGetKernel(&w.k, World::garbage<CUlibrary>(), "e")),
    ROW(kFresh, kNotInit, kDocumented, cuLibraryGetKernelCount(&w.u, World::garbage<CUlibrary>())),
    ROW(kFresh, kNotInit, kDocumented,
        cuLibraryGetUnifiedFunction(&w.v, World::garbage<CUlibrary>(), "e")),
    ROW(kReady, kHandle, kDocumented, cuLibraryGetUnifiedFunction(&w.v, w.lost_library, "e")),
    ROW(kReady, kNotFound, kDocumented, cuLibraryGetUnifiedFunction(&w.v, w.library, "e")),
    ROW(kFresh, kNotInit, kDocumented, cuKernelGetFunction(&w.f, World::garbage<CUkernel>())),
    ROW(kFresh, kNotInit, kDocumented, cuKernelGetName(&w.text, World::garbage<CUkernel>())),
    STEPS(kNoContext, kOk, kDocumented, "cuLibraryLoadData needs no context",
          {
            const CUresult result = load(w, &w.l, kPtx);
            return result == kOk ? w.cu->cuLibraryUnload(w.l) : result;
          }),
    STEPS(kNoContext, kContext, kDocumented, "cuLibraryGetModule without a context",
          {
            (void)load(w, &w.l, kPtx);
            const CUresult result = w.cu->cuLibraryGetModule(&w.m, w.l);
            (void)w.cu->cuLibraryUnload(w.l);
            return result;
          }),
    STEPS(kNoContext, kContext, kDocumented, "cuKernelGetFunction without a context",
          {
            (void)load(w, &w.l, kPtx);
            (void)w.cu->cuLibraryGetKernel(&w.k, w.l, "e");
            const CUresult result = w.cu->cuKernelGetFunction(&w.f, w.k);
            (void)w.cu->cuLibraryUnload(w.l);
            return result;
          }),

    STEPS(kReady, kValue, kDocumented, "cuLibraryLoadData without a result",
          { return load(w, nullptr, kPtx); }),
    STEPS(kReady, kValue, kDocumented, "cuLibraryLoadData without code",
          { return load(w, &w.l, nullptr); }),
    STEPS(kReady, CUDA_ERROR_INVALID_PTX, kDocumented, "cuLibraryLoadData of broken PTX",
          { return load(w, &w.l, kBrokenPtx); }),
    ROW(kReady, kValue, kDocumented,
        cuLibraryLoadData(&w.l, kPtx, nullptr, nullptr, 1, nullptr, nullptr, 0)),
    ROW(kReady, kValue, kDocumented,
        cuLibraryLoadData(&w.l, kPtx, nullptr, nullptr, 0, nullptr, nullptr, 1)),
    STEPS(kReady, kValue, kDocumented, "cuLibraryLoadFromFile without a result",
          { return load_file(w, nullptr, kFile); }),
    STEPS(kReady, kValue, kDocumented, "cuLibraryLoadFromFile without a name",
          { return load_file(w, &w.l, nullptr); }),
    STEPS(kReady, CUDA_ERROR_FILE_NOT_FOUND, kOurs, "cuLibraryLoadFromFile of no file",
          { return load_file(w, &w.l, kFile); }),
    ROW(kReady, kHandle, kOurs, cuLibraryUnload(w.lost_library)),
    ROW(kReady, kHandle, kOurs, cuLibraryUnload(nullptr)),
    ROW(kReady, kHandle, kOurs, cuLibraryUnload(World::garbage<CUlibrary>())),
    ROW(kReady, kValue, kDocumented, cuLibraryGetKernel(nullptr, w.library, "fill")),
    ROW(kReady, kValue, kDocumented, cuLibraryGetKernel(&w.k, w.library, nullptr)),
    ROW(kReady, kNotFound, kDocumented, cuLibraryGetKernel(&w.k, w.library, "missing")),
    ROW(kReady, kNotFound, kDocumented, cuLibraryGetKernel(&w.k, w.library, "")),
    ROW(kReady, kNotFound, kDocumented, cuLibraryGetKernel(&w.k, w.library, "counter")),
    ROW(kReady, kHandle, kDocumented, cuLibraryGetKernel(&w.k, nullptr, "fill")),
    ROW(kReady, kHandle, kDocumented, cuLibraryGetKernel(&w.k, w.lost_library, "fill")),
    ROW(kReady, kHandle, kOurs, cuLibraryGetKernel(&w.k, World::garbage<CUlibrary>(), "fill")),
    ROW(kReady, kValue, kDocumented, cuLibraryGetKernelCount(nullptr, w.library)),
    ROW(kReady, kHandle, kDocumented, cuLibraryGetKernelCount(&w.u, nullptr)),
    ROW(kReady, kHandle, kDocumented, cuLibraryGetKernelCount(&w.u, w.lost_library)),
    ROW(kReady, kValue, kDocumented, cuLibraryEnumerateKernels(nullptr, 1, w.library)),
    ROW(kReady, kHandle, kDocumented, cuLibraryEnumerateKernels(&w.k, 1, nullptr)),
    ROW(kReady, kHandle, kDocumented, cuLibraryEnumerateKernels(&w.k, 1, w.lost_library)),
    ROW(kReady, kValue, kDocumented, cuLibraryGetModule(nullptr, w.library)),
    ROW(kReady, kHandle, kDocumented, cuLibraryGetModule(&w.m, nullptr)),
    ROW(kReady, kHandle, kDocumented, cuLibraryGetModule(&w.m, w.lost_library)),
    ROW(kReady, kOk, kDocumented, cuLibraryGetGlobal(&w.p, nullptr, w.library, "counter")),
    ROW(kReady, kOk, kDocumented, cuLibraryGetGlobal(nullptr, &w.size, w.library, "counter")),
    ROW(kReady, kValue, kDocumented, cuLibraryGetGlobal(&w.p, &w.size, w.library, nullptr)),
    ROW(kReady, kNotFound, kDocumented, cuLibraryGetGlobal(&w.p, &w.size, w.library, "missing")),
    ROW(kReady, kNotFound, kDocumented, cuLibraryGetGlobal(&w.p, &w.size, w.library, "")),
    ROW(kReady, kHandle, kDocumented, cuLibraryGetGlobal(&w.p, &w.size, nullptr, "counter")),
    ROW(kReady, kHandle, kDocumented, cuLibraryGetGlobal(&w.p, &w.size, w.lost_library, "counter")),

    ROW(kReady, kValue, kDocumented, cuKernelGetFunction(nullptr, w.kernel)),
    ROW(kReady, kHandle, kDocumented, cuKernelGetFunction(&w.f, nullptr)),
    ROW(kReady, kHandle, kDocumented, cuKernelGetFunction(&w.f, w.lost_kernel)),
    ROW(kReady, kHandle, kOurs, cuKernelGetFunction(&w.f, World::garbage<CUkernel>())),
    ROW(kReady, kValue, kDocumented, cuKernelGetLibrary(nullptr, w.kernel)),
    ROW(kReady, kHandle, kDocumented, cuKernelGetLibrary(&w.l, nullptr)),
    ROW(kReady, kHandle, kDocumented, cuKernelGetLibrary(&w.l, w.lost_kernel)),
    ROW(kReady, kValue, kDocumented, cuKernelGetName(nullptr, w.kernel)),
    ROW(kReady, kValue, kDocumented, cuKernelGetName(&w.text, nullptr)),
    ROW(kReady, kHandle, kOurs, cuKernelGetName(&w.text, w.lost_kernel)),
    ROW(kReady, kValue, kDocumented, cuKernelGetParamInfo(w.kernel, 3, &w.size, &w.size2)),
    ROW(kReady, kValue, kDocumented, cuKernelGetParamInfo(w.kernel, 0, nullptr, &w.size2)),
    ROW(kReady, kOk, kDocumented, cuKernelGetParamInfo(w.kernel, 0, &w.size, nullptr)),
    ROW(kReady, kValue, kDocumented, cuKernelGetAttribute(nullptr, kThreads, w.kernel, w.device)),
    ROW(kReady, kValue, kDocumented, cuKernelGetAttribute(&w.i, kNoAttribute, w.kernel, w.device)),
    ROW(kReady, kHandle, kDocumented, cuKernelGetAttribute(&w.i, kThreads, nullptr, w.device)),
    ROW(kReady, kHandle, kDocumented,
        cuKernelGetAttribute(&w.i, kThreads, w.lost_kernel, w.device)),
    ROW(kReady, kDevice, kDocumented, cuKernelGetAttribute(&w.i, kThreads, w.kernel, kFar)),
    ROW(kReady, kValue, kDocumented, cuKernelSetAttribute(kNoAttribute, 1, w.kernel, w.device)),
    ROW(kReady, kValue, kDocumented, cuKernelSetAttribute(kThreads, 64, w.kernel, w.device)),
    ROW(kReady, kValue, kDocumented, cuKernelSetAttribute(kShared, -1, w.kernel, w.device)),
    ROW(kReady, kValue, kDocumented, cuKernelSetAttribute(kShared, 1 << 30, w.kernel, w.device)),
    ROW(kReady, kHandle, kDocumented, cuKernelSetAttribute(kShared, 0, nullptr, w.device)),
    ROW(kReady, kHandle, kDocumented, cuKernelSetAttribute(kShared, 0, w.lost_kernel, w.device)),
    ROW(kReady, kDevice, kDocumented, cuKernelSetAttribute(kShared, 0, w.kernel, kFar)),
    ROW(kReady, kValue, kDocumented, cuKernelSetCacheConfig(w.kernel, kNoCache, w.device)),
    ROW(kReady, kHandle, kDocumented, cuKernelSetCacheConfig(nullptr, kL1, w.device)),
    ROW(kReady, kDevice, kDocumented, cuKernelSetCacheConfig(w.kernel, kL1, kFar)),

    ROW(kForked, kNotInit, kOurs, cuLibraryUnload(w.library)),
    ROW(kForked, kNotInit, kOurs, cuLibraryGetKernel(&w.k, w.library, "fill")),
    ROW(kForked, kNotInit, kOurs, cuKernelGetFunction(&w.f, w.kernel)),
};

}  // namespace

const std::span<const Row> kLibraryRows = kRows;

}  // namespace vgpu::fidelity
