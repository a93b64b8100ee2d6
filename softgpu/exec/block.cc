// Runs one thread block: its warps in turn, its barriers, its faults.
// SPDX-License-Identifier: Apache-2.0
#include "softgpu/exec/block.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <utility>
#include <vector>

#include "softgpu/exec/block_services.h"
#include "softgpu/exec/cluster.h"
#include "softgpu/exec/faults.h"
#include "softgpu/exec/warp_context.h"

namespace vgpu::softgpu {
namespace {

constexpr uint32_t kThreadsMax = 1024;
const std::atomic<uint32_t> kNeverStop{0};

// Zeroed pages with an inaccessible page behind them; kept as long as the next request fits.
class Window {
 public:
  ~Window() { release(); }

  bool reserve(size_t bytes) {
    const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    bytes = (std::max<size_t>(bytes, 1) + page - 1) / page * page;
    if (bytes == bytes_) return true;
    release();
    void* at = mmap(nullptr, bytes + page, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) return false;
    data_ = static_cast<uint8_t*>(at);
    bytes_ = bytes;
    mapped_ = bytes + page;
    return mprotect(data_ + bytes, page, PROT_NONE) == 0;
  }

  uint8_t* data() const { return data_; }

 private:
  void release() {
    if (data_ != nullptr) munmap(data_, mapped_);
    data_ = nullptr;
    bytes_ = mapped_ = 0;
  }

  uint8_t* data_ = nullptr;
  size_t bytes_ = 0, mapped_ = 0;
};

// What calls of known depth need, and where that is unknown the context's limit on top. Our frames
// keep more than a compiler's with real registers: a limit that is enough on hardware is to be
// enough here.
uint32_t stack_bytes_of(const CompiledKernel& kernel, const GridParams& grid) {
  constexpr uint32_t kRoomier = 4, kUnit = 64;
  const uint64_t bytes =
      kernel.stack_bytes + (kernel.stack_dynamic ? uint64_t{kRoomier} * grid.stack_limit : 0);
  return static_cast<uint32_t>((bytes + kUnit - 1) / kUnit * kUnit);
}

// kWaiting: the whole warp is at one barrier. kParked: its lanes wait at several places.
enum class WarpState : uint8_t { kReady, kWaiting, kParked, kFinished };

struct Warp {
  alignas(64) WarpContext context;
  WarpSync sync;
  WarpState state = WarpState::kReady;
};

}  // namespace

void BlockServices::abort(CUresult code, uint64_t address, const char* text) {
  fault.code = code;
  fault.address = address;
  fault.text = text;
  spring_trap();
}

struct BlockRunner::State {
  const CompiledKernel* kernel = nullptr;
  Window shared, local, save, stack;
  std::vector<Warp> warps;
  BlockServices services;
  const std::atomic<uint32_t>* attention = nullptr;  // what running code looks at; see stopped()
  const std::atomic<uint32_t>* stop = &kNeverStop;   // the grid's
  std::shared_ptr<Cluster> cluster;  // of a block that runs; nullptr: launched without clusters
  ClusterPlace place;
  bool advanced = false;    // in the last run()
  size_t next = 0;          // the warp whose turn it is
  size_t first = 0;         // the warp whose turn comes first in the next round
  uint32_t unfinished = 0;  // warps
  // The contexts as begin() made them, without the thread indices, which never change: the next
  // block of the same grid starts from these.
  struct Head {
    unsigned char bytes[offsetof(WarpContext, tid)];
  };
  std::vector<Head> heads;
  uint64_t grid_id = 0;  // of the grid that `heads` is for; 0 = none

  void next_block(const Dim3& block_index);
  void set_threads(const Dim3& block);
  // Partner: whoever stops a grid stores that first and then asks for attention; the SM clears the
  // latter before it runs the block (seq_cst all).
  bool stopped() const { return stop->load(std::memory_order_seq_cst) != 0; }
  bool interrupted() const { return looks_at()->load(std::memory_order_relaxed) != 0; }
  const std::atomic<uint32_t>* looks_at() const { return attention != nullptr ? attention : stop; }
  BlockStep round(bool* progress);
  BlockStep step(Warp& warp, bool* progress);
  bool open_barriers();
  bool open_cluster_barrier(const uint32_t* alive);
  void release(uint32_t barrier);
  void wake(const uint32_t* waiting, uint32_t result);
  void find_place(const GridParams& grid, const Dim3& block_index);
  void leave();
  BlockStep faulted(CUresult code, const char* text, int line);
};

BlockRunner::BlockRunner(const std::atomic<uint32_t>* attention)
    : state_(std::make_unique<State>()) {
  state_->attention = attention;
  install_fault_handlers();
}
BlockRunner::~BlockRunner() = default;

const Fault& BlockRunner::fault() const { return state_->services.fault; }
bool BlockRunner::advanced() const { return state_->advanced; }

// The dynamic part starts at a multiple of 16 bytes.
uint32_t shared_bytes_of(const CompiledKernel& kernel, const GridParams& grid) {
  return (kernel.shared_bytes + 15) / 16 * 16 + grid.dynamic_shared_bytes;
}

void BlockRunner::State::set_threads(const Dim3& block) {
  const uint32_t threads = block.x * block.y * block.z;
  for (uint32_t t = 0; t < warps.size() * kWarpLanes; ++t) {
    WarpContext& c = warps[t / kWarpLanes].context;
    const uint32_t lane = t % kWarpLanes;
    if (lane == 0) c.mask = 0;
    if (t < threads) c.mask |= 1u << lane;
    c.tid[0][lane] = t % block.x;
    c.tid[1][lane] = t / block.x % block.y;
    c.tid[2][lane] = t / block.x / block.y;
    c.alive = c.mask;
  }
}

void BlockRunner::State::find_place(const GridParams& grid, const Dim3& block_index) {
  const uint32_t block[3] = {block_index.x, block_index.y, block_index.z};
  const uint32_t all[3] = {grid.grid.x, grid.grid.y, grid.grid.z};
  const uint32_t size[3] = {grid.cluster.x, grid.cluster.y, grid.cluster.z};
  for (int d = 0; d < 3; ++d) {
    place.cluster[d] = block[d] / size[d];
    place.clusters[d] = all[d] / size[d];
    place.index[d] = block[d] % size[d];
    place.size[d] = size[d];
  }
  place.rank = place.index[0] + size[0] * (place.index[1] + size[1] * place.index[2]);
  place.blocks = grid.cluster_blocks();
  place.window = place.rank * kClusterWindow;
}

bool BlockRunner::begin(const CompiledKernel& kernel, const GridParams& grid,
                        const Dim3& block_index, uint32_t sm_id, std::shared_ptr<Cluster> cluster) {
  State& s = *state_;
  s.cluster = std::move(cluster);
  if (s.cluster != nullptr) s.find_place(grid, block_index);
  if (grid.grid_id != 0 && grid.grid_id == s.grid_id && s.kernel == &kernel) {
    s.next_block(block_index);
    return true;
  }
  s.grid_id = 0;
  const uint64_t threads = uint64_t{grid.block.x} * grid.block.y * grid.block.z;
  if (threads == 0 || threads > kThreadsMax) return false;
  const uint32_t warp_count = static_cast<uint32_t>((threads + kWarpLanes - 1) / kWarpLanes);
  const uint32_t shared_bytes = shared_bytes_of(kernel, grid);
  const uint32_t stack_bytes = stack_bytes_of(kernel, grid);
  const size_t save_bytes = (size_t{kernel.save_bytes} + 127) / 64 * 64;
  if ((s.cluster == nullptr && !s.shared.reserve(shared_bytes)) ||
      !s.save.reserve(save_bytes * warp_count) ||
      !s.local.reserve(size_t{kernel.local_bytes} * warp_count * kWarpLanes) ||
      !s.stack.reserve(size_t{stack_bytes} * warp_count * kWarpLanes)) {
    return false;
  }
  s.kernel = &kernel;
  s.stop = grid.stop != nullptr ? grid.stop : &kNeverStop;
  s.services.device = grid.services;
  s.services.profile = grid.profile;
  s.services.grid = grid.owner;
  s.services.local_bytes = uint64_t{kernel.local_bytes} * kWarpLanes;
  s.services.fault = {};
  s.services.barriers.reset();
  s.warps.resize(warp_count);
  for (uint32_t w = 0; w < warp_count; ++w) {
    WarpContext& c = s.warps[w].context;
    c = {};
    c.shared = s.cluster != nullptr ? s.cluster->memory() : s.shared.data();
    c.cluster = s.cluster != nullptr ? &s.place : nullptr;
    c.params = grid.params;
    c.local = s.local.data() + size_t{kernel.local_bytes} * kWarpLanes * w;
    c.save = s.save.data() + save_bytes * w;
    c.stack = s.stack.data() + size_t{stack_bytes} * kWarpLanes * w;
    c.stack_bytes = stack_bytes;
    c.attention = reinterpret_cast<const uint32_t*>(s.looks_at());
    c.workspace = grid.cooperative_workspace;
    c.grid_id = grid.grid_id;
    c.services = &s.services;
    c.sync = &s.warps[w].sync;
    c.symbols = kernel.symbols.data();
    const uint32_t ntid[3] = {grid.block.x, grid.block.y, grid.block.z};
    const uint32_t nctaid[3] = {grid.grid.x, grid.grid.y, grid.grid.z};
    std::memcpy(c.ntid, ntid, sizeof ntid);
    std::memcpy(c.nctaid, nctaid, sizeof nctaid);
    c.warp_id = w;
    c.warp_count = warp_count;
    c.sm_id = sm_id;
    c.sm_count = grid.sm_count;
    c.dynamic_shared_bytes = grid.dynamic_shared_bytes;
    c.total_shared_bytes = shared_bytes;
  }
  s.set_threads(grid.block);
  s.heads.resize(warp_count);
  for (uint32_t w = 0; w < warp_count; ++w)
    std::memcpy(&s.heads[w], &s.warps[w].context, sizeof s.heads[w]);
  s.grid_id = grid.grid_id;
  s.next_block(block_index);
  return true;
}

void BlockRunner::State::next_block(const Dim3& block_index) {
  const uint32_t ctaid[3] = {block_index.x, block_index.y, block_index.z};
  if (services.fault.code != CUDA_SUCCESS) services.fault = {};
  services.barriers.reset();
  services.cluster_barrier.reset();
  for (size_t w = 0; w < warps.size(); ++w) {
    std::memcpy(static_cast<void*>(&warps[w].context), &heads[w], sizeof heads[w]);
    std::memcpy(warps[w].context.ctaid, ctaid, sizeof ctaid);
    if (cluster != nullptr) warps[w].context.shared = cluster->memory();
    warps[w].state = WarpState::kReady;
  }
  unfinished = static_cast<uint32_t>(warps.size());
  next = first = 0;
}

BlockStep BlockRunner::State::faulted(CUresult code, const char* text, int line) {
  services.fault.code = code;
  services.fault.text = text;
  if (line > 0) services.fault.text += " at PTX line " + std::to_string(line);
  return BlockStep::kFault;
}

// One turn of every warp that can run. kYielded stands for "go on".
BlockStep BlockRunner::State::round(bool* progress) {
  for (size_t turn = 0; turn < warps.size(); ++turn) {
    next = first + turn < warps.size() ? first + turn : first + turn - warps.size();
    if (warps[next].state != WarpState::kReady) continue;
    const BlockStep result = step(warps[next], progress);
    if (result != BlockStep::kYielded) return result;
    if (!interrupted()) continue;
    first = next + 1 < warps.size() ? next + 1 : 0;  // this one has had its turn
    return stopped() ? BlockStep::kStopped : BlockStep::kInterrupted;
  }
  first = 0;
  return BlockStep::kYielded;
}

BlockStep BlockRunner::State::step(Warp& warp, bool* progress) {
  WarpContext& c = warp.context;
  const int result = kernel->entry(&c);
  if (result != kWarpYielded) *progress = true;
  switch (result) {
    case kWarpFinished:
      warp.state = WarpState::kFinished;
      c.alive = 0;
      --unfinished;
      return BlockStep::kYielded;
    case kWarpAtBarrier:
      if (c.barrier_op == kBarrierCluster) {
        const bool over =
            services.cluster_barrier.wait(static_cast<uint32_t>(next), c.alive) == c.alive;
        if (!over) warp.state = WarpState::kWaiting;
        return BlockStep::kYielded;
      }
      warp.state = WarpState::kWaiting;
      services.barriers.arrive(
          static_cast<uint32_t>(next),
          {c.barrier_id, c.barrier_threads, c.barrier_op, c.alive, c.barrier_votes, true});
      return BlockStep::kYielded;
    case kWarpParked:
      warp.state = WarpState::kParked;
      return BlockStep::kYielded;
    case kWarpYielded:
      return BlockStep::kYielded;
    case kWarpAssert:
      return faulted(CUDA_ERROR_ASSERT, "assertion failed", static_cast<int>(c.fault_line));
    case kWarpStackOverflow:
      return faulted(CUDA_ERROR_HARDWARE_STACK_ERROR, "stack overflow",
                     static_cast<int>(c.fault_line));
    case kWarpBadTarget:
      return faulted(CUDA_ERROR_INVALID_PC, "jump to no function or label",
                     static_cast<int>(c.fault_line));
    default:
      return faulted(CUDA_ERROR_LAUNCH_FAILED, "trap", static_cast<int>(c.fault_line));
  }
}

bool BlockRunner::State::open_barriers() {
  if (services.barriers.used() == 0 && !services.cluster_barrier.used()) return false;
  uint32_t alive[kWarpsMax];
  for (size_t w = 0; w < warps.size(); ++w) alive[w] = warps[w].context.alive;
  bool opened = services.cluster_barrier.used() && open_cluster_barrier(alive);
  for (uint32_t used = services.barriers.used(); used != 0; used &= used - 1) {
    const uint32_t id = static_cast<uint32_t>(std::countr_zero(used));
    if (!services.barriers.complete(id, alive, static_cast<uint32_t>(warps.size()))) continue;
    release(id);
    opened = true;
  }
  return opened;
}

// A block that was launched without clusters is one by itself.
bool BlockRunner::State::open_cluster_barrier(const uint32_t* alive) {
  ClusterBarrier& barrier = services.cluster_barrier;
  const auto count = static_cast<uint32_t>(warps.size());
  if (barrier.announces(alive, count) && cluster != nullptr) cluster->arrive();
  const bool over = cluster != nullptr ? cluster->phase() != barrier.phase() : barrier.announced();
  if (!over) return false;
  uint32_t waiting[kWarpsMax];
  barrier.open(waiting, count);
  wake(waiting, 0);
  return true;
}

void BlockRunner::State::release(uint32_t id) {
  BarrierUnit& barriers = services.barriers;
  uint32_t waiting[kWarpsMax];
  for (uint32_t w = 0; w < warps.size(); ++w) waiting[w] = barriers.waiting(id, w);
  wake(waiting, barriers.release(id));
}

// Lanes, by warp, that have waited long enough.
void BlockRunner::State::wake(const uint32_t* waiting, uint32_t result) {
  for (size_t w = 0; w < warps.size(); ++w) {
    if (waiting[w] == 0) continue;
    WarpContext& c = warps[w].context;
    if (warps[w].state == WarpState::kWaiting) {
      c.barrier_result = result;
      warps[w].state = WarpState::kReady;
      continue;
    }
    for (uint32_t m = waiting[w]; m != 0; m &= m - 1) c.sync->result[std::countr_zero(m)] = result;
    c.sync->flags = result != 0 ? c.sync->flags | waiting[w] : c.sync->flags & ~waiting[w];
    c.released |= waiting[w];
    if (warps[w].state == WarpState::kParked) warps[w].state = WarpState::kReady;
  }
}

// The block has ended, however.
void BlockRunner::State::leave() {
  services.end_block();
  if (cluster == nullptr) return;
  const ClusterBarrier& barrier = services.cluster_barrier;
  cluster->leave(barrier.announced() && barrier.phase() == cluster->phase());
  cluster = nullptr;
}

BlockStep BlockRunner::run() {
  State& s = *state_;
  s.advanced = false;
  FaultTrap trap;
  if (sigsetjmp(trap.back, 0) != 0) {
    disarm(&trap);
    Fault& fault = s.services.fault;
    fault.kernel = s.kernel->name;
    s.leave();
    if (trap.signal != 0) {
      fault.code = CUDA_ERROR_ILLEGAL_ADDRESS;
      fault.address = trap.address;
      fault.text = trap.signal == SIGBUS ? "bus error" : "illegal address";
    }
    return BlockStep::kFault;
  }
  arm(&trap);
  BlockStep step = s.stopped() ? BlockStep::kStopped : BlockStep::kYielded;
  bool progress = true;
  while (step == BlockStep::kYielded && s.unfinished > 0 && progress) {
    progress = false;
    step = s.round(&progress);
    progress |= s.open_barriers();
    s.advanced |= progress;
  }
  disarm(&trap);
  if (step == BlockStep::kFault) s.services.fault.kernel = s.kernel->name;
  const bool goes_on = step == BlockStep::kYielded || step == BlockStep::kInterrupted;
  if (goes_on && s.unfinished == 0) step = BlockStep::kFinished;
  if (!goes_on || step == BlockStep::kFinished) {
    s.leave();
    s.services.end_block();
  }
  return step;
}

}  // namespace vgpu::softgpu
