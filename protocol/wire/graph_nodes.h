// What a graph consists of, as bytes of an upload: the channel's own commands, each with the
// earlier ones that it comes after. SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_PROTOCOL_WIRE_GRAPH_NODES_H_
#define VGPU_PROTOCOL_WIRE_GRAPH_NODES_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

namespace vgpu::protocol {

inline constexpr uint32_t kGraphNodesMax = 1 << 20;
inline constexpr uint16_t kGraphNodePriority = 1;  // the launch's priority counts

// One node: this, `before` numbers of earlier nodes (u32), and, from the next multiple of 8 on,
// `bytes` of the command `op` (its struct and what stands behind it; a launch, a box, a fill, an
// event, a host function, a conditional node, or several StreamMemory). 0: nothing to do. The next
// node follows at a multiple of 8. In an update `before` is 0.
struct GraphNodeHeader {
  uint32_t number = 0;
  uint16_t op = 0;
  uint16_t flags = 0;
  uint32_t before = 0;
  uint32_t bytes = 0;
};
static_assert(sizeof(GraphNodeHeader) == 16);

// What may stand behind the struct of a RectCopy: functions of the guest's that run right before
// and right after the copy, and move ordinary memory into and out of what both sides reach; 0:
// none.
struct GraphCopyCalls {
  uint64_t before = 0, after = 0;
};
static_assert(sizeof(GraphCopyCalls) == 16);

// The command of a conditional node (op GraphConditional): this, then for each of its `bodies` the
// number of nodes in it (u32). Where conditional nodes are, the bodies of all stand behind the
// graph's own nodes, in the order of the nodes that they belong to. Nodes name only such of their
// own body as `before`.
struct GraphConditionalNode {
  uint64_t handle = 0;  // as the worker has given it
  uint32_t type = 0;    // CUgraphConditionalNodeType
  uint32_t bodies = 0;
};
static_assert(sizeof(GraphConditionalNode) == 16);
inline constexpr uint32_t kGraphNestingMax = 64;            // bodies one in the other
inline constexpr uint32_t kGraphConditionalsMax = 1 << 16;  // handles of one source

inline void append_graph_node(std::vector<std::byte>* out, GraphNodeHeader header,
                              std::span<const uint32_t> before,
                              std::span<const std::byte> command) {
  const auto put = [out](const void* from, size_t bytes) {
    const size_t at = out->size();
    out->resize((at + bytes + 7) / 8 * 8);
    if (bytes != 0) std::memcpy(out->data() + at, from, bytes);
  };
  header.before = static_cast<uint32_t>(before.size());
  header.bytes = static_cast<uint32_t>(command.size());
  put(&header, sizeof(header));
  put(before.data(), before.size_bytes());
  put(command.data(), command.size());
}

// Takes nodes out of bytes that nobody else writes. False at the end and when they are damaged:
// damaged() tells.
class GraphNodeReader {
 public:
  explicit GraphNodeReader(std::span<const std::byte> bytes) : rest_(bytes) {}

  bool next(GraphNodeHeader* header, std::vector<uint32_t>* before,
            std::span<const std::byte>* command) {
    if (rest_.empty() || damaged_) return false;
    std::span<const std::byte> part;
    if (!take(sizeof(*header), &part)) return false;
    std::memcpy(header, part.data(), sizeof(*header));
    if (!take(uint64_t{header->before} * sizeof(uint32_t), &part)) return false;
    before->resize(header->before);
    if (!part.empty()) std::memcpy(before->data(), part.data(), part.size());
    return take(header->bytes, command);
  }
  bool damaged() const { return damaged_; }

 private:
  bool take(uint64_t bytes, std::span<const std::byte>* part) {
    const uint64_t padded = (bytes + 7) / 8 * 8;
    damaged_ = damaged_ || padded > rest_.size();
    if (damaged_) return false;
    *part = rest_.first(bytes);
    rest_ = rest_.subspan(padded);
    return true;
  }

  std::span<const std::byte> rest_;
  bool damaged_ = false;
};

}  // namespace vgpu::protocol

#endif  // VGPU_PROTOCOL_WIRE_GRAPH_NODES_H_
