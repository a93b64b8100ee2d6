// What a compiled warp sees: plain memory whose offsets are baked into the code.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace vgpu::softgpu {

inline constexpr uint32_t kWarpLanes = 32;

// What an entry returns. Negative values are faults.
enum WarpResult : int {
  kWarpFinished = 0,
  kWarpAtBarrier = 1,  // barrier_* say which; call again when the block's barrier opened
  kWarpYielded = 2,    // spins, or has seen that attention is asked for: call again
  kWarpParked = 4,     // every lane waits, some at barriers: call again when `released` says whose
  kWarpTrapped = -1,
  kWarpAssert = -2,
  kWarpStackOverflow = -3,  // calls too deep
  kWarpBadTarget = -4,      // a jump through a value that is no function or label
};

// kBarrierCluster: the wait for all threads of the cluster; it has no number.
enum BarrierOp : uint32_t {
  kBarrierSync = 0,
  kBarrierPopc = 1,
  kBarrierAnd = 2,
  kBarrierOr = 3,
  kBarrierCluster = 4
};

// Shared memory of a cluster, as 32 bits name it: the block's rank above, the place in its window
// below.
inline constexpr uint32_t kClusterWindowBits = 24;
inline constexpr uint32_t kClusterWindow = 1u << kClusterWindowBits;
inline constexpr uint32_t kRanks = 16;  // blocks of the largest cluster, a power of two

// Where a block is in its cluster, and that in its grid.
struct ClusterPlace {
  uint32_t cluster[3], clusters[3];  // the cluster's index in the grid, and how many there are
  uint32_t index[3], size[3];        // the block's in the cluster, and the cluster's, in blocks
  uint32_t rank, blocks;
  uint32_t window;  // where the block's shared memory begins in the cluster's
};

class BlockServices;

// Where lanes meet that wait for each other at different times or places: what they brought, and
// what they get.
struct WarpSync {
  uint64_t value[kWarpLanes];
  uint32_t operation[kWarpLanes], members[kWarpLanes];
  uint32_t second[kWarpLanes], third[kWarpLanes];
  uint32_t result[kWarpLanes];
  uint32_t flags;  // per lane: a result that is a predicate
};

struct WarpContext {
  uint32_t resume;              // 0 = from the start, else the number of a suspension point
  uint32_t mask;                // lanes that exist
  uint8_t* shared;              // the block's window; with clusters, the first block's
  const ClusterPlace* cluster;  // nullptr: launched without clusters
  const uint8_t* params;
  uint8_t* local;             // lane 0's slice
  uint8_t* save;              // registers of a suspended warp
  uint8_t* stack;             // lane 0's; the others follow, `stack_bytes` apart
  const uint32_t* attention;  // non-zero: come back at the next back edge
  uint64_t workspace;         // cooperative grid barrier
  uint64_t grid_id;
  BlockServices* services;
  WarpSync* sync;
  uint32_t alive;           // lanes that have not left, as far as known outside of the warp
  uint32_t sync_waiting;    // lanes parked until other lanes of the warp come
  uint32_t released;        // lanes whose wait is over and who have not gone on yet
  const uint64_t* symbols;  // addresses of module variables, as the kernel numbers them
  uint32_t ctaid[3];
  uint32_t ntid[3];
  uint32_t nctaid[3];
  uint32_t lane;  // which one runs, where they run one after the other
  uint32_t warp_id, warp_count;
  uint32_t sm_id, sm_count;
  uint32_t dynamic_shared_bytes, total_shared_bytes;
  uint32_t stack_bytes;
  uint32_t barrier_id, barrier_threads, barrier_op;  // threads 0 = all of the block
  uint32_t barrier_votes;                            // lanes whose predicate holds
  uint32_t barrier_result;                           // filled before the warp is resumed
  uint32_t spins;                                    // back edges taken in loops that wait
  uint32_t turn;                                     // whose block comes first when loops spin
  uint32_t fault_line;                               // PTX line of a trap or assert
  alignas(128) uint32_t tid[3][kWarpLanes];          // loaded whole, as vectors of 128 bytes
};

}  // namespace vgpu::softgpu
