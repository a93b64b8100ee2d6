// Launches: shapes, parameters, attributes, handles.
// SPDX-License-Identifier: Apache-2.0
#include "table.h"

namespace vgpu::fidelity {
namespace {

// A correct launch of `fill` over no words, for rows that spoil one argument.
struct Parameters {
  explicit Parameters(const World& w) : out(w.memory) {}
  CUdeviceptr out;
  uint32_t n = 0, value = 0;
  void* each[3] = {&out, &n, &value};
};

CUresult shaped(World& w, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                unsigned bz) {
  Parameters parameters(w);
  return w.cu->cuLaunchKernel(w.fill, gx, gy, gz, bx, by, bz, 0, w.stream, parameters.each,
                              nullptr);
}

CUresult with_extra(World& w, void** params, void** extra) {
  return w.cu->cuLaunchKernel(w.fill, 1, 1, 1, 1, 1, 1, 0, w.stream, params, extra);
}

CUresult with_attribute(World& w, CUlaunchAttribute* attribute, unsigned count) {
  Parameters parameters(w);
  CUlaunchConfig config = {};
  config.gridDimX = config.gridDimY = config.gridDimZ = 1;
  config.blockDimX = config.blockDimY = config.blockDimZ = 1;
  config.hStream = w.stream;
  config.attrs = attribute;
  config.numAttrs = count;
  return w.cu->cuLaunchKernelEx(&config, w.fill, parameters.each, nullptr);
}

// A grid of `blocks` in clusters.
CUresult in_clusters(World& w, unsigned blocks, unsigned x, unsigned y, unsigned z) {
  Parameters parameters(w);
  CUlaunchAttribute cluster = {};
  cluster.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
  cluster.value.clusterDim.x = x;
  cluster.value.clusterDim.y = y;
  cluster.value.clusterDim.z = z;
  CUlaunchConfig config = {};
  config.gridDimX = blocks;
  config.gridDimY = config.gridDimZ = 1;
  config.blockDimX = config.blockDimY = config.blockDimZ = 1;
  config.hStream = w.stream;
  config.attrs = &cluster;
  config.numAttrs = 1;
  return w.cu->cuLaunchKernelEx(&config, w.fill, parameters.each, nullptr);
}
#define CLUSTER(want, source, blocks, x, y, z)                                    \
  STEPS(kReady, want, source,                                                     \
        "cuLaunchKernelEx: grid of " #blocks " in clusters of " #x "," #y "," #z, \
        { return in_clusters(w, blocks, x, y, z); })

// The shape is read through its own fields, so that a row names what it spoils.
#define SHAPE(want, gx, gy, gz, bx, by, bz)                                       \
  STEPS(kReady, want, kDocumented,                                                \
        "cuLaunchKernel grid " #gx "," #gy "," #gz " block " #bx "," #by "," #bz, \
        { return shaped(w, gx, gy, gz, bx, by, bz); })

const Row kRows[] = {
    ROW(kReady, kOk, kDocumented, cuFuncSetBlockShape(w.fill, 1, 1, 1)),
    ROW(kReady, kHandle, kDocumented, cuFuncSetBlockShape(w.garbage<CUfunction>(), 1, 1, 1)),
    ROW(kReady, kHandle, kDocumented, cuFuncSetBlockShape(nullptr, 1, 1, 1)),
    ROW(kReady, kValue, kDocumented, cuFuncSetBlockShape(w.fill, 0, 1, 1)),
    ROW(kReady, kValue, kDocumented, cuFuncSetBlockShape(w.fill, 1, -1, 1)),
    ROW(kNoContext, kContext, kDocumented, cuFuncSetBlockShape(nullptr, 1, 1, 1)),
    ROW(kFresh, kNotInit, kDocumented, cuFuncSetBlockShape(nullptr, 1, 1, 1)),
    ROW(kReady, kHandle, kDocumented, cuFuncSetSharedSize(nullptr, 1)),
    ROW(kReady, kValue, kDocumented, cuParamSeti(w.fill, -1, 0)),
    ROW(kReady, kValue, kOurs, cuParamSetv(w.fill, 0, nullptr, 4)),
    ROW(kReady, kValue, kDocumented, cuParamSetSize(w.fill, 1 << 24)),
    ROW(kReady, kValue, kDocumented, cuLaunchGrid(w.fill, 0, 1)),
    ROW(kFresh, kNotInit, kDocumented, cuLaunch(nullptr)),
    ROW(kNoContext, kContext, kDocumented, cuLaunch(nullptr)),
    ROW(kFresh, kNotInit, kDocumented,
        cuLaunchKernel(World::garbage<CUfunction>(), 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr,
                       nullptr)),
    ROW(kFresh, kNotInit, kDocumented,
        cuLaunchKernelEx(&w.config, World::garbage<CUfunction>(), nullptr, nullptr)),
    ROW(kNoContext, kContext, kOurs,
        cuLaunchKernel(World::garbage<CUfunction>(), 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr,
                       nullptr)),
    SHAPE(kOk, 1, 1, 1, 1, 1, 1),
    SHAPE(kOk, 65535, 1, 1, 1, 1, 1),
    SHAPE(kOk, 1, 1, 1, 1024, 1, 1),
    SHAPE(kOk, 1, 1, 1, 4, 4, 64),
    SHAPE(kValue, 0, 1, 1, 1, 1, 1),
    SHAPE(kValue, 1, 0, 1, 1, 1, 1),
    SHAPE(kValue, 1, 1, 0, 1, 1, 1),
    SHAPE(kValue, 1, 1, 1, 0, 1, 1),
    SHAPE(kValue, 1, 1, 1, 1, 0, 1),
    SHAPE(kValue, 1, 1, 1, 1, 1, 0),
    SHAPE(kValue, 0x80000000, 1, 1, 1, 1, 1),
    SHAPE(kValue, 0xffffffff, 1, 1, 1, 1, 1),
    SHAPE(kValue, 1, 65536, 1, 1, 1, 1),
    SHAPE(kValue, 1, 1, 65536, 1, 1, 1),
    SHAPE(kValue, 1, 1, 1, 1025, 1, 1),
    SHAPE(kValue, 1, 1, 1, 1, 1025, 1),
    SHAPE(kValue, 1, 1, 1, 1, 1, 65),
    SHAPE(kValue, 1, 1, 1, 32, 33, 1),
    SHAPE(kValue, 1, 1, 1, 1024, 1024, 64),
    SHAPE(kValue, 1, 1, 1, 0x10000, 0x10000, 1),
    SHAPE(kValue, 1, 1, 1, 0xffffffff, 1, 1),

    ROW(kReady, kHandle, kDocumented,
        cuLaunchKernel(nullptr, 1, 1, 1, 1, 1, 1, 0, w.stream, nullptr, nullptr)),
    STEPS(kReady, kHandle, kOurs, "cuLaunchKernel of a garbage function",
          { return w.launch(World::garbage<CUfunction>(), w.stream, 1, 1, 0); }),
    STEPS(kReady, kHandle, kOurs, "cuLaunchKernel of a stream",
          { return w.launch(reinterpret_cast<CUfunction>(w.stream), w.stream, 1, 1, 0); }),
    STEPS(kReady, kHandle, kDocumented, "cuLaunchKernel of a function whose module is unloaded",
          { return w.launch(w.lost_function, w.stream, 1, 1, 0); }),
    STEPS(kReady, kHandle, kDocumented, "cuLaunchKernel of a kernel whose library is unloaded",
          { return w.launch(reinterpret_cast<CUfunction>(w.lost_kernel), w.stream, 1, 1, 0); }),
    STEPS(kReady, kHandle, kDocumented, "cuLaunchKernel of another context's function",
          { return w.launch(w.other_function, w.stream, 1, 1, 0); }),
    STEPS(kReady, kHandle, kDocumented, "cuLaunchKernel on a destroyed stream",
          { return w.launch(w.fill, w.stale_stream, 1, 1, 0); }),
    STEPS(kReady, kHandle, kDocumented, "cuLaunchKernel on another context's stream",
          { return w.launch(w.fill, w.other_stream, 1, 1, 0); }),
    STEPS(kReady, kHandle, kOurs, "cuLaunchKernel on a garbage stream",
          { return w.launch(w.fill, World::garbage<CUstream>(), 1, 1, 0); }),
    STEPS(kReady, kOk, kDocumented, "cuLaunchKernel of a CUkernel",
          { return w.launch(reinterpret_cast<CUfunction>(w.kernel), w.stream, 1, 1, 0); }),
    STEPS(kReady, kOk, kDocumented, "cuLaunchKernel of a CUkernel in the context of the stream",
          { return w.launch(reinterpret_cast<CUfunction>(w.kernel), w.other_stream, 1, 1, 0); }),
    STEPS(kReady, kValue, kDocumented, "cuLaunchKernel with 1 GiB of shared memory",
          { return w.launch(w.fill, w.stream, 1, 1, 1U << 30); }),
    STEPS(kReady, kValue, kDocumented, "cuLaunchKernel with all of 4 GiB of shared memory",
          { return w.launch(w.fill, w.stream, 1, 1, 0xffffffff); }),
    STEPS(kReady, kValue, kDocumented, "cuLaunchKernel with shared memory that was not opted into",
          {
            const int most = w.device_attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK);
            return w.launch(w.fill, w.stream, 1, 1, static_cast<unsigned>(most) + 4);
          }),

    STEPS(kReady, kValue, kDocumented, "cuLaunchKernel with kernelParams and extra",
          {
            Parameters parameters(w);
            size_t size = 16;
            void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &parameters,
                             CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_END};
            return with_extra(w, parameters.each, extra);
          }),
    STEPS(kReady, kOk, kDocumented, "cuLaunchKernel with extra",
          {
            Parameters parameters(w);
            size_t size = 16;
            void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &parameters,
                             CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_END};
            return with_extra(w, nullptr, extra);
          }),
    STEPS(kReady, kValue, kDocumented, "cuLaunchKernel with an unknown name in extra",
          {
            Parameters parameters(w);
            void* extra[] = {reinterpret_cast<void*>(77), &parameters, CU_LAUNCH_PARAM_END};
            return with_extra(w, nullptr, extra);
          }),
    STEPS(kReady, kValue, kDocumented, "cuLaunchKernel with a buffer that is too small",
          {
            Parameters parameters(w);
            size_t size = 8;
            void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &parameters,
                             CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_END};
            return with_extra(w, nullptr, extra);
          }),
    STEPS(kReady, kValue, kDocumented, "cuLaunchKernel with a buffer of no size",
          {
            Parameters parameters(w);
            void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &parameters, CU_LAUNCH_PARAM_END};
            return with_extra(w, nullptr, extra);
          }),
    STEPS(kReady, kValue, kDocumented, "cuLaunchKernel with a size and no buffer",
          {
            size_t size = 16;
            void* extra[] = {CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_END};
            return with_extra(w, nullptr, extra);
          }),
    STEPS(kReady, kValue, kDocumented, "cuLaunchKernel without the parameters that it has",
          { return with_extra(w, nullptr, nullptr); }),

    ROW(kReady, kValue, kDocumented, cuLaunchKernelEx(nullptr, w.fill, nullptr, nullptr)),
    STEPS(kReady, kOk, kDocumented, "cuLaunchKernelEx without attributes",
          { return with_attribute(w, nullptr, 0); }),
    STEPS(kReady, kValue, kDocumented, "cuLaunchKernelEx with an empty grid",
          { return w.cu->cuLaunchKernelEx(&w.config, w.fill, nullptr, nullptr); }),
    STEPS(kReady, kValue, kDocumented, "cuLaunchKernelEx with a count and no attributes",
          { return with_attribute(w, nullptr, 1); }),
    STEPS(kReady, kOk, kDocumented, "cuLaunchKernelEx with an ignored attribute",
          {
            CUlaunchAttribute attribute = {};
            attribute.id = CU_LAUNCH_ATTRIBUTE_IGNORE;
            return with_attribute(w, &attribute, 1);
          }),
    STEPS(kReady, kOk, kDocumented, "cuLaunchKernelEx with a priority",
          {
            CUlaunchAttribute attribute = {};
            attribute.id = CU_LAUNCH_ATTRIBUTE_PRIORITY;
            attribute.value.priority = -1;
            return with_attribute(w, &attribute, 1);
          }),
    CLUSTER(kOk, kDocumented, 8, 1, 1, 1),
    CLUSTER(kOk, kDocumented, 8, 8, 1, 1),
    CLUSTER(kOk, kOurs, 8, 0, 0, 0),
    CLUSTER(kClusterSize, kOurs, 8, 2, 0, 1),
    CLUSTER(kClusterSize, kOurs, 8, 3, 1, 1),
    CLUSTER(kClusterSize, kOurs, 8, 1, 2, 1),
    CLUSTER(kClusterSize, kOurs, 16, 16, 1, 1),
    CLUSTER(kClusterSize, kOurs, 32, 32, 1, 1),
    CLUSTER(kClusterSize, kOurs, 8, 0xffffffff, 0xffffffff, 0xffffffff),
    STEPS(kReady, kHandle, kDocumented, "cuLaunchKernelEx of no function",
          {
            Parameters parameters(w);
            CUlaunchConfig config = {};
            config.gridDimX = config.gridDimY = config.gridDimZ = 1;
            config.blockDimX = config.blockDimY = config.blockDimZ = 1;
            return w.cu->cuLaunchKernelEx(&config, nullptr, parameters.each, nullptr);
          }),

    STEPS(kFault, kIllegal, kDocumented, "cuLaunchKernel after a fault",
          { return w.launch(w.fill, w.stream, 1, 1, 0); }),
    STEPS(kForked, kNotInit, kOurs, "cuLaunchKernel in the child of a fork",
          { return w.launch(w.fill, w.stream, 1, 1, 0); }),
};

}  // namespace

const std::span<const Row> kLaunchRows = kRows;

}  // namespace vgpu::fidelity
