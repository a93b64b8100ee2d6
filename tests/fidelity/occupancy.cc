// Occupancy: block sizes, flags, functions.
// SPDX-License-Identifier: Apache-2.0
#include "table.h"

namespace vgpu::fidelity {
namespace {

constexpr unsigned kNoFlag = 0x80;

// Of blocks of one thread, in clusters of `size` in a row; 0: no attribute.
CUresult active_clusters(World& w, unsigned size) {
  CUlaunchAttribute cluster = {};
  cluster.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
  cluster.value.clusterDim.x = size;
  cluster.value.clusterDim.y = cluster.value.clusterDim.z = 1;
  CUlaunchConfig config = {};
  config.gridDimX = size == 0 ? 1 : size;
  config.gridDimY = config.gridDimZ = 1;
  config.blockDimX = config.blockDimY = config.blockDimZ = 1;
  config.attrs = &cluster;
  config.numAttrs = size == 0 ? 0 : 1;
  return w.cu->cuOccupancyMaxActiveClusters(&w.i, w.fill, &config);
}

const Row kRows[] = {
    ROW(kFresh, kNotInit, kDocumented,
        cuOccupancyMaxActiveBlocksPerMultiprocessor(&w.i, World::garbage<CUfunction>(), 128, 0)),
    ROW(kFresh, kNotInit, kDocumented,
        cuOccupancyMaxPotentialBlockSize(&w.i, &w.i2, World::garbage<CUfunction>(), nullptr, 0, 0)),
    ROW(kFresh, kNotInit, kDocumented,
        cuOccupancyAvailableDynamicSMemPerBlock(&w.size, World::garbage<CUfunction>(), 1, 128)),
    ROW(kNoContext, kContext, kOurs,
        cuOccupancyMaxActiveBlocksPerMultiprocessor(&w.i, World::garbage<CUfunction>(), 128, 0)),
    ROW(kReady, kValue, kDocumented,
        cuOccupancyMaxActiveBlocksPerMultiprocessor(nullptr, w.fill, 128, 0)),
    ROW(kReady, kValue, kDocumented,
        cuOccupancyMaxActiveBlocksPerMultiprocessor(&w.i, w.fill, 0, 0)),
    ROW(kReady, kValue, kDocumented,
        cuOccupancyMaxActiveBlocksPerMultiprocessor(&w.i, w.fill, -1, 0)),
    ROW(kReady, kHandle, kOurs, cuOccupancyMaxActiveBlocksPerMultiprocessor(&w.i, nullptr, 128, 0)),
    ROW(kReady, kHandle, kOurs,
        cuOccupancyMaxActiveBlocksPerMultiprocessor(&w.i, w.lost_function, 128, 0)),
    ROW(kReady, kHandle, kOurs,
        cuOccupancyMaxActiveBlocksPerMultiprocessor(&w.i, World::garbage<CUfunction>(), 128, 0)),
    ROW(kReady, kOk, kDocumented,
        cuOccupancyMaxActiveBlocksPerMultiprocessor(&w.i, reinterpret_cast<CUfunction>(w.kernel),
                                                    128, 0)),
    STEPS(kReady, kOk, kDocumented, "cuOccupancyMaxActiveBlocksPerMultiprocessor: none fits",
          {
            w.i = 99;
            const CUresult result =
                w.cu->cuOccupancyMaxActiveBlocksPerMultiprocessor(&w.i, w.fill, 1024, 1 << 30);
            return result != kOk || w.i == 0 ? result : kValue;
          }),
    ROW(kReady, kValue, kDocumented,
        cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&w.i, w.fill, 128, 0, kNoFlag)),
    ROW(kReady, kValue, kDocumented,
        cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(nullptr, w.fill, 128, 0, 0)),
    ROW(kReady, kValue, kDocumented,
        cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&w.i, w.fill, 0, 0, 0)),
    ROW(kReady, kOk, kDocumented,
        cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&w.i, w.fill, 128, 0, 1)),
    ROW(kReady, kValue, kDocumented,
        cuOccupancyMaxPotentialBlockSize(nullptr, &w.i, w.fill, nullptr, 0, 0)),
    ROW(kReady, kValue, kDocumented,
        cuOccupancyMaxPotentialBlockSize(&w.i, nullptr, w.fill, nullptr, 0, 0)),
    ROW(kReady, kHandle, kOurs,
        cuOccupancyMaxPotentialBlockSize(&w.i, &w.i2, nullptr, nullptr, 0, 0)),
    ROW(kReady, kHandle, kOurs,
        cuOccupancyMaxPotentialBlockSize(&w.i, &w.i2, w.lost_function, nullptr, 0, 0)),
    ROW(kReady, kOk, kDocumented,
        cuOccupancyMaxPotentialBlockSize(&w.i, &w.i2, w.fill, nullptr, 0, 64)),
    ROW(kReady, kValue, kDocumented,
        cuOccupancyMaxPotentialBlockSizeWithFlags(&w.i, &w.i2, w.fill, nullptr, 0, 0, kNoFlag)),
    ROW(kReady, kValue, kDocumented,
        cuOccupancyMaxPotentialBlockSizeWithFlags(nullptr, &w.i2, w.fill, nullptr, 0, 0, 0)),
    ROW(kReady, kValue, kDocumented,
        cuOccupancyAvailableDynamicSMemPerBlock(nullptr, w.fill, 1, 128)),
    ROW(kReady, kValue, kDocumented,
        cuOccupancyAvailableDynamicSMemPerBlock(&w.size, w.fill, 0, 128)),
    ROW(kReady, kValue, kDocumented,
        cuOccupancyAvailableDynamicSMemPerBlock(&w.size, w.fill, 1, 0)),
    ROW(kReady, kValue, kDocumented,
        cuOccupancyAvailableDynamicSMemPerBlock(&w.size, w.fill, 1, -1)),
    ROW(kReady, kHandle, kOurs, cuOccupancyAvailableDynamicSMemPerBlock(&w.size, nullptr, 1, 128)),
    ROW(kReady, kValue, kOurs,
        cuOccupancyAvailableDynamicSMemPerBlock(&w.size, w.fill, 1000, 1024)),
    ROW(kReady, kValue, kDocumented,
        cuOccupancyMaxPotentialClusterSize(nullptr, w.fill, &w.config)),
    ROW(kReady, kValue, kDocumented, cuOccupancyMaxPotentialClusterSize(&w.i, w.fill, nullptr)),
    ROW(kReady, kValue, kDocumented, cuOccupancyMaxActiveClusters(nullptr, w.fill, &w.config)),
    ROW(kReady, kValue, kDocumented, cuOccupancyMaxActiveClusters(&w.i, w.fill, nullptr)),
    ROW(kReady, kHandle, kOurs, cuOccupancyMaxActiveClusters(&w.i, nullptr, &w.config)),
    STEPS(kReady, kClusterSize, kOurs, "cuOccupancyMaxActiveClusters without a size",
          { return active_clusters(w, 0); }),
    STEPS(kReady, kOk, kDocumented, "cuOccupancyMaxActiveClusters of 8",
          { return active_clusters(w, 8); }),
    STEPS(kReady, kClusterSize, kOurs, "cuOccupancyMaxActiveClusters of 17",
          { return active_clusters(w, 17); }),
    ROW(kDead, kDestroyed, kOurs,
        cuOccupancyMaxActiveBlocksPerMultiprocessor(&w.i, World::garbage<CUfunction>(), 128, 0)),
    ROW(kForked, kNotInit, kOurs,
        cuOccupancyMaxActiveBlocksPerMultiprocessor(&w.i, w.fill, 128, 0)),
};

}  // namespace

const std::span<const Row> kOccupancyRows = kRows;

}  // namespace vgpu::fidelity
