// Runs PTX text without a device.
// SPDX-License-Identifier: Apache-2.0
#include "executor.h"

#include <algorithm>
#include <cstring>

#include "softgpu/exec/block.h"
#include "softgpu/exec/cluster.h"
#include "softgpu/exec/grid.h"
#include "softgpu/exec/grid_family.h"
#include "softgpu/exec/kernel_host.h"
#include "softgpu/exec/stream_queue.h"
#include "softgpu/exec/warp_context.h"

namespace vgpu::softgpu {
namespace {

constexpr int kTurnsMax = 100000;

// The threads of one block, each with a context of its own.
struct Threads {
  std::vector<WarpContext> contexts;
  std::vector<std::vector<uint64_t>> save, local, stack;
  std::vector<uint64_t> shared;
  std::vector<int> results;

  Threads(const CompiledKernel& kernel, const Launch& launch, const Dim3& index);
  void open_barriers();
};

Threads::Threads(const CompiledKernel& kernel, const Launch& launch, const Dim3& index) {
  static const uint32_t kNeverStop = 0;
  const Dim3& b = launch.block;
  const uint32_t count = b.x * b.y * b.z;
  const uint32_t shared_bytes = kernel.shared_bytes + launch.dynamic_shared_bytes;
  contexts.resize(count);
  results.assign(count, kWarpYielded);
  shared.assign(shared_bytes / 8 + 16, 0);
  save.assign(count, std::vector<uint64_t>(kernel.save_bytes / 8 + 16));
  local.assign(count, std::vector<uint64_t>(kernel.local_bytes / 8 + 16));
  const uint32_t stack_bytes = kernel.stack_bytes + (kernel.stack_dynamic ? 4096 : 0);
  stack.assign(count, std::vector<uint64_t>(stack_bytes / 8 + 16));
  for (uint32_t t = 0; t < count; ++t) {
    WarpContext& c = contexts[t];
    c = {};
    c.stack =
        reinterpret_cast<uint8_t*>((reinterpret_cast<uintptr_t>(stack[t].data()) + 63) & ~63ull);
    c.stack_bytes = stack_bytes;
    c.mask = 1;
    c.shared =
        reinterpret_cast<uint8_t*>((reinterpret_cast<uintptr_t>(shared.data()) + 63) & ~63ull);
    c.params = static_cast<const uint8_t*>(launch.params);
    c.local =
        reinterpret_cast<uint8_t*>((reinterpret_cast<uintptr_t>(local[t].data()) + 63) & ~63ull);
    c.save =
        reinterpret_cast<uint8_t*>((reinterpret_cast<uintptr_t>(save[t].data()) + 63) & ~63ull);
    c.attention = &kNeverStop;
    c.symbols = kernel.symbols.data();
    const uint32_t ctaid[3] = {index.x, index.y, index.z}, ntid[3] = {b.x, b.y, b.z};
    const uint32_t nctaid[3] = {launch.grid.x, launch.grid.y, launch.grid.z};
    std::memcpy(c.ctaid, ctaid, sizeof ctaid);
    std::memcpy(c.ntid, ntid, sizeof ntid);
    std::memcpy(c.nctaid, nctaid, sizeof nctaid);
    c.warp_id = t / kWarpLanes;
    c.warp_count = (count + kWarpLanes - 1) / kWarpLanes;
    c.sm_count = 1;
    c.dynamic_shared_bytes = launch.dynamic_shared_bytes;
    c.total_shared_bytes = shared_bytes;
    c.tid[0][0] = t % b.x;
    c.tid[1][0] = t / b.x % b.y;
    c.tid[2][0] = t / b.x / b.y;
  }
}

// Nobody can run: whoever waits at the same barrier goes on.
void Threads::open_barriers() {
  std::map<uint32_t, std::vector<size_t>> waiting;
  for (size_t t = 0; t < contexts.size(); ++t) {
    if (results[t] == kWarpAtBarrier) waiting[contexts[t].barrier_id].push_back(t);
  }
  for (auto& [id, list] : waiting) {
    uint32_t votes = 0;
    for (size_t t : list) votes += contexts[t].barrier_votes & 1;
    for (size_t t : list) {
      const uint32_t op = contexts[t].barrier_op;
      contexts[t].barrier_result = op == kBarrierPopc  ? votes
                                   : op == kBarrierAnd ? votes == list.size()
                                                       : votes != 0;
      results[t] = kWarpYielded;
    }
  }
}

GridParams params_of(const Launch& launch) {
  GridParams grid;
  grid.grid = launch.grid;
  grid.block = launch.block;
  grid.cluster = launch.cluster;
  grid.dynamic_shared_bytes = launch.dynamic_shared_bytes;
  grid.params = static_cast<const uint8_t*>(launch.params);
  return grid;
}

}  // namespace

std::unique_ptr<TestModule> TestModule::load(std::string_view ptx, std::string* error) {
  Diagnostic diagnostic;
  auto module = std::make_unique<TestModule>();
  module->program_ = Program::parse(ptx, &diagnostic);
  if (module->program_ == nullptr) {
    *error = "line " + std::to_string(diagnostic.line) + ": " + diagnostic.text;
    return nullptr;
  }
  module->place_globals();
  auto resolve = [m = module.get()](std::string_view name) -> uint64_t {
    auto it = m->globals_.find(name);
    return it == m->globals_.end() ? 0 : reinterpret_cast<uint64_t>(it->second.data());
  };
  module->code_ = LoadedCode::load(module->program_, resolve);
  return module;
}

void TestModule::place_globals() {
  for (const GlobalVar& g : program_->globals()) {
    auto& words = globals_[g.name];
    words.assign(g.bytes / 8 + 2, 0);
    std::memcpy(words.data(), g.init.data(), g.init.size());
  }
  for (const std::string& name : program_->address_taken()) globals_[name].assign(1, 0);
  for (const GlobalVar& g : program_->globals()) {
    for (const auto& r : g.relocs) {
      auto it = globals_.find(r.symbol);
      if (it == globals_.end()) continue;
      const uint64_t address = reinterpret_cast<uint64_t>(it->second.data()) + r.addend;
      std::memcpy(reinterpret_cast<uint8_t*>(globals_[g.name].data()) + r.offset, &address, 8);
    }
  }
}

int TestModule::kernel(const std::string& name) const {
  const auto& kernels = program_->kernels();
  for (size_t i = 0; i < kernels.size(); ++i) {
    if (name.empty() || kernels[i].name == name) return static_cast<int>(i);
  }
  return -1;
}

bool TestModule::run(int kernel, Lanes lanes, const Launch& launch, std::string* error) {
  Diagnostic d;
  const auto index = static_cast<uint32_t>(kernel);
  const bool clustered = launch.cluster.x != 0;
  const CompiledKernel* k = lanes != Lanes::kOne
                                ? code_->compile(index, launch.block, &d, clustered)
                                : code_->compile_for_one_lane(index, &d);
  if (k == nullptr) {
    *error = "line " + std::to_string(d.line) + ": " + d.text;
    return false;
  }
  if (clustered) return run_clusters(*k, launch, error);
  return lanes == Lanes::kOne ? run_threads(*k, launch, error)
                              : run_warps(*k, lanes, launch, error);
}

// Blocks of a cluster in turn, as an SM does it.
bool TestModule::run_clusters(const CompiledKernel& kernel, const Launch& launch,
                              std::string* error) {
  Grid grid;
  grid.params = params_of(launch);
  grid.unit = grid.params.cluster_blocks();
  auto cluster = std::make_shared<Cluster>();
  std::vector<BlockRunner> runners(grid.unit);
  for (uint64_t first = 0; first < launch.grid.x * launch.grid.y * launch.grid.z;
       first += grid.unit) {
    bool begun = cluster->begin(grid.unit, shared_bytes_of(kernel, grid.params));
    for (uint32_t rank = 0; rank < grid.unit; ++rank)
      begun = begun && runners[rank].begin(kernel, grid.params, grid.clustered_index(first + rank),
                                           0, cluster);
    if (!begun) return *error = "no cluster", false;
    std::vector<BlockStep> steps(grid.unit, BlockStep::kYielded);
    const auto runs = [](BlockStep step) { return step == BlockStep::kYielded; };
    for (int turn = 0; std::any_of(steps.begin(), steps.end(), runs); ++turn) {
      if (turn == kTurnsMax) return *error = "never ends", false;
      for (uint32_t rank = 0; rank < grid.unit; ++rank) {
        if (runs(steps[rank])) steps[rank] = runners[rank].run();
        if (steps[rank] == BlockStep::kFault) return *error = runners[rank].fault().text, false;
      }
    }
  }
  return true;
}

bool TestModule::run_warps(const CompiledKernel& kernel, Lanes lanes, const Launch& launch,
                           std::string* error) {
  static const std::atomic<uint32_t> kAlways{1};
  const bool interrupted = lanes == Lanes::kInterrupted;
  const int turns_max = interrupted ? 1000 * kTurnsMax : kTurnsMax;
  const GridParams grid = params_of(launch);
  BlockRunner runner(interrupted ? &kAlways : nullptr);
  for (uint32_t i = 0; i < launch.grid.x * launch.grid.y * launch.grid.z; ++i) {
    const Dim3 index{i % launch.grid.x, i / launch.grid.x % launch.grid.y,
                     i / launch.grid.x / launch.grid.y};
    BlockStep step = BlockStep::kYielded;
    if (!runner.begin(kernel, grid, index, 0)) return *error = "no block", false;
    const auto goes_on = [&step] {
      return step == BlockStep::kYielded || step == BlockStep::kInterrupted;
    };
    for (int turn = 0; turn < turns_max && goes_on(); ++turn) step = runner.run();
    if (step == BlockStep::kFinished) continue;
    *error = goes_on() ? "never ends" : runner.fault().text;
    return false;
  }
  return true;
}

bool TestModule::run_threads(const CompiledKernel& kernel, const Launch& launch,
                             std::string* error) {
  for (uint32_t i = 0; i < launch.grid.x * launch.grid.y * launch.grid.z; ++i) {
    const Dim3 index{i % launch.grid.x, i / launch.grid.x % launch.grid.y,
                     i / launch.grid.x / launch.grid.y};
    Threads threads(kernel, launch, index);
    bool unfinished = true;
    for (int turn = 0; unfinished; ++turn) {
      if (turn == kTurnsMax) return *error = "never ends", false;
      unfinished = false;
      bool progress = false;
      for (size_t t = 0; t < threads.contexts.size(); ++t) {
        int& result = threads.results[t];
        if (result == kWarpYielded) {
          result = kernel.entry(&threads.contexts[t]);
          progress = true;
        }
        if (result < 0) return *error = "fault", false;
        unfinished = unfinished || result != kWarpFinished;
      }
      if (!progress) threads.open_barriers();
    }
  }
  return true;
}

bool needs_whole_warps(std::string_view ptx) {
  for (const char* name : {"shfl.", "vote.", "match.", "redux.", "activemask", "elect.", "mma.",
                           "matrix.", "matrix_"}) {
    if (ptx.find(name) != std::string_view::npos) return true;
  }
  return false;
}

}  // namespace vgpu::softgpu
