// Cuts blocks around operations that wait in divergent code.
// SPDX-License-Identifier: Apache-2.0
#include "softgpu/passes/isolate_syncs.h"

#include <utility>

namespace vgpu::softgpu {
namespace {

// Places in block b before which it is cut.
std::vector<size_t> cuts_of(const Kernel& k, size_t b) {
  const Block& block = k.blocks[b];
  std::vector<size_t> cuts;
  if (!block.reachable || block.code.size() < 2) return cuts;
  for (size_t i = 0; i < block.code.size(); ++i) {
    const ptx::Instruction& in = block.code[i];
    if (sync_kind(in) == SyncKind::kNone) continue;
    const bool splits = in.guard >= 0 && k.divergent[in.guard];
    if (k.frontier[b].empty() && !splits) continue;
    if (i > 0 && (cuts.empty() || cuts.back() != i)) cuts.push_back(i);
    if (i + 1 < block.code.size()) cuts.push_back(i + 1);
  }
  return cuts;
}

// One block as several, each falling through to the next; the last keeps the way out.
void append_parts(Block block, const std::vector<size_t>& cuts, std::vector<Block>* out) {
  size_t from = 0;
  for (size_t cut : cuts) {
    Block part;
    part.code.assign(block.code.begin() + static_cast<long>(from),
                     block.code.begin() + static_cast<long>(cut));
    part.next = static_cast<int>(out->size()) + 1;
    out->push_back(std::move(part));
    from = cut;
  }
  block.code.erase(block.code.begin(), block.code.begin() + static_cast<long>(from));
  out->push_back(std::move(block));
}

}  // namespace

bool isolate_syncs(Kernel* kernel) {
  std::vector<std::vector<size_t>> cuts;
  std::vector<int> place;  // where each block begins afterwards
  int count = 0;
  for (size_t b = 0; b < kernel->blocks.size(); ++b) {
    place.push_back(count);
    cuts.push_back(cuts_of(*kernel, b));
    count += 1 + static_cast<int>(cuts.back().size());
  }
  if (count == static_cast<int>(kernel->blocks.size())) return false;
  for (Block& block : kernel->blocks) {
    for (int* target : {&block.branch, &block.next}) {
      if (*target >= 0) *target = place[static_cast<size_t>(*target)];
    }
    for (auto& [value, target] : block.cases) target = place[static_cast<size_t>(target)];
  }
  std::vector<Block> blocks;
  for (size_t b = 0; b < kernel->blocks.size(); ++b)
    append_parts(std::move(kernel->blocks[b]), cuts[b], &blocks);
  kernel->blocks = std::move(blocks);
  link_blocks(kernel);
  return true;
}

}  // namespace vgpu::softgpu
