// Operations across lanes that do not run at once: lanes leave what they bring, and the last one
// computes for all. SPDX-License-Identifier: Apache-2.0
#include <bit>
#include <cstdint>

#include "softgpu/exec/block_services.h"
#include "softgpu/exec/warp_context.h"
#include "softgpu/jit/runtime.h"
#include "softgpu/jit/sync_op.h"

namespace vgpu::softgpu {
namespace {

// What one group of lanes brings; arrays by lane.
struct Operands {
  const uint64_t* value;
  const uint32_t *second, *third;
};

struct Results {
  uint32_t* value;
  uint32_t* flags;
  void set(uint32_t lane, uint32_t v, bool flag) const {
    value[lane] = v;
    *flags = flag ? *flags | 1u << lane : *flags & ~(1u << lane);
  }
};

uint32_t combine(ReduceOp op, uint32_t a, uint32_t b) {
  const auto sa = static_cast<int32_t>(a), sb = static_cast<int32_t>(b);
  switch (op) {
    case ReduceOp::kAdd:
      return a + b;
    case ReduceOp::kMinSigned:
      return sa < sb ? a : b;
    case ReduceOp::kMinUnsigned:
      return a < b ? a : b;
    case ReduceOp::kMaxSigned:
      return sa > sb ? a : b;
    case ReduceOp::kMaxUnsigned:
      return a > b ? a : b;
    case ReduceOp::kAnd:
      return a & b;
    case ReduceOp::kOr:
      return a | b;
    case ReduceOp::kXor:
      return a ^ b;
  }
  return a;
}

void vote(VoteMode mode, uint32_t group, const Operands& in, const Results& out) {
  uint32_t votes = 0;
  for (uint32_t m = group; m != 0; m &= m - 1) {
    const int lane = std::countr_zero(m);
    if (in.value[lane] != 0) votes |= 1u << lane;
  }
  const bool all = votes == group, any = votes != 0;
  const bool flag = mode == VoteMode::kAll ? all : mode == VoteMode::kAny ? any : all || !any;
  for (uint32_t m = group; m != 0; m &= m - 1)
    out.set(static_cast<uint32_t>(std::countr_zero(m)), votes, flag);
}

void reduce(ReduceOp op, uint32_t group, const Operands& in, const Results& out) {
  uint32_t total = static_cast<uint32_t>(in.value[std::countr_zero(group)]);
  for (uint32_t m = group & (group - 1); m != 0; m &= m - 1)
    total = combine(op, total, static_cast<uint32_t>(in.value[std::countr_zero(m)]));
  for (uint32_t m = group; m != 0; m &= m - 1)
    out.set(static_cast<uint32_t>(std::countr_zero(m)), total, true);
}

void match(bool all, uint32_t group, const Operands& in, const Results& out) {
  for (uint32_t m = group; m != 0; m &= m - 1) {
    const auto lane = static_cast<uint32_t>(std::countr_zero(m));
    uint32_t same = 0;
    for (uint32_t n = group; n != 0; n &= n - 1) {
      const int other = std::countr_zero(n);
      if (in.value[other] == in.value[lane]) same |= 1u << other;
    }
    const bool agree = same == group;
    out.set(lane, all && !agree ? 0 : same, agree);
  }
}

void shuffle_group(uint32_t mode, uint32_t group, const Operands& in, const Results& out) {
  for (uint32_t m = group; m != 0; m &= m - 1) {
    const auto lane = static_cast<uint32_t>(std::countr_zero(m));
    bool inside = false;
    const uint32_t from = shuffle_source(mode, lane, in.second[lane], in.third[lane], &inside);
    // A lane outside of the group brings nothing: undefined in PTX, the own value here.
    const uint32_t source = (group >> from & 1) != 0 ? from : lane;
    out.set(lane, static_cast<uint32_t>(in.value[source]), inside);
  }
}

void compute(uint32_t code, uint32_t group, const Operands& in, const Results& out) {
  const uint32_t mode = code & 0xff;
  switch (static_cast<SyncOp>(code >> 8)) {
    case SyncOp::kShuffle:
      return shuffle_group(mode, group, in, out);
    case SyncOp::kVote:
      return vote(static_cast<VoteMode>(mode), group, in, out);
    case SyncOp::kMatch:
      return match(mode != 0, group, in, out);
    case SyncOp::kReduce:
      return reduce(static_cast<ReduceOp>(mode), group, in, out);
    case SyncOp::kElect:
      for (uint32_t m = group; m != 0; m &= m - 1) {
        const auto lane = static_cast<uint32_t>(std::countr_zero(m));
        const auto leader = static_cast<uint32_t>(std::countr_zero(group));
        out.set(lane, leader, lane == leader);
      }
      return;
    case SyncOp::kBarrier:
      return;
  }
}

// Lanes of `among` that brought the same operation and members as `lane`.
uint32_t partners(const uint32_t* operation, const uint32_t* members, uint32_t among, int lane) {
  uint32_t group = 0;
  for (uint32_t m = among; m != 0; m &= m - 1) {
    const int other = std::countr_zero(m);
    if (operation[other] == operation[lane] && members[other] == members[lane])
      group |= 1u << other;
  }
  return group;
}

void finish(WarpContext* warp, uint32_t group) {
  WarpSync& s = *warp->sync;
  compute(s.operation[std::countr_zero(group)], group, {s.value, s.second, s.third},
          {s.result, &s.flags});
  warp->sync_waiting &= ~group;
  warp->released |= group;
}

void finish_complete(WarpContext* warp, uint32_t alive) {
  const WarpSync& s = *warp->sync;
  for (uint32_t left = warp->sync_waiting; left != 0;) {
    const int lane = std::countr_zero(left);
    const uint32_t group = partners(s.operation, s.members, warp->sync_waiting, lane);
    left &= ~group;
    if ((s.members[lane] & alive & ~group) == 0) finish(warp, group);
  }
}

// Lanes `mask` come and wait. Returns the lanes that may go on.
uint32_t arrive(WarpContext* warp, uint32_t code, uint32_t mask, uint32_t alive,
                const uint32_t* members, const uint64_t* value, const uint32_t* second,
                const uint32_t* third) {
  WarpSync& s = *warp->sync;
  for (uint32_t m = mask; m != 0; m &= m - 1) {
    const int lane = std::countr_zero(m);
    s.operation[lane] = code;
    s.members[lane] = members[lane];
    s.value[lane] = value[lane];
    s.second[lane] = second[lane];
    s.third[lane] = third[lane];
  }
  warp->sync_waiting |= mask;
  finish_complete(warp, alive);
  return warp->released;
}

// Lanes may have left since: looks again. When all that are left wait for each other in vain, which
// PTX leaves undefined, all go on without the missing ones.
uint32_t settle(WarpContext* warp, uint32_t alive) {
  warp->alive = alive;
  if (warp->sync_waiting == 0) return warp->released;
  finish_complete(warp, alive);
  if (warp->released == 0 && warp->sync_waiting == alive) {
    const WarpSync& s = *warp->sync;
    for (uint32_t left = alive; left != 0; left = warp->sync_waiting)
      finish(warp, partners(s.operation, s.members, left, std::countr_zero(left)));
  }
  return warp->released;
}

// All lanes are here, in groups by their member masks. Returns the predicates.
uint32_t at_once(uint32_t code, uint32_t mask, const uint32_t* members, const uint64_t* value,
                 const uint32_t* second, const uint32_t* third, uint32_t* out) {
  uint32_t flags = 0;
  for (uint32_t left = mask; left != 0;) {
    uint32_t group = 0;
    const uint32_t named = members[std::countr_zero(left)];
    for (uint32_t m = left; m != 0; m &= m - 1) {
      if (members[std::countr_zero(m)] == named) group |= 1u << std::countr_zero(m);
    }
    compute(code, group, {value, second, third}, {out, &flags});
    left &= ~group;
  }
  return flags;
}

// bar.sync, bar.red and bar.arrive in divergent code, where lanes may name different barriers; and
// arrivals at the cluster's, and waits for it in divergent code.
void barrier(WarpContext* warp, uint32_t op, uint32_t waits, uint32_t mask, const uint32_t* ids,
             const uint32_t* threads, uint32_t votes) {
  if (op == kBarrierCluster) {
    ClusterBarrier& cluster = warp->services->cluster_barrier;
    if (waits == 0) return cluster.arrive(warp->warp_id, mask);
    warp->released |= cluster.wait(warp->warp_id, mask);
    return;
  }
  for (uint32_t left = mask; left != 0;) {
    const int first = std::countr_zero(left);
    uint32_t lanes = 0;
    for (uint32_t m = left; m != 0; m &= m - 1) {
      const int lane = std::countr_zero(m);
      if (ids[lane] == ids[first] && threads[lane] == threads[first]) lanes |= 1u << lane;
    }
    warp->services->barriers.arrive(warp->warp_id,
                                    {ids[first], threads[first], op, lanes, votes, waits != 0});
    left &= ~lanes;
  }
}

template <typename F>
void* address_of(F* f) {
  return reinterpret_cast<void*>(f);
}

}  // namespace

std::span<const RuntimeSymbol> runtime_sync_symbols() {
  static const RuntimeSymbol kSymbols[] = {{"sg_sync_arrive", address_of(arrive)},
                                           {"sg_sync_settle", address_of(settle)},
                                           {"sg_sync_now", address_of(at_once)},
                                           {"sg_barrier", address_of(barrier)}};
  return kSymbols;
}

}  // namespace vgpu::softgpu
