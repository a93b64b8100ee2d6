// Nodes with their kinds and, when asked for, their parameters; child graphs as clusters.
// SPDX-License-Identifier: Apache-2.0
#include "api/graph/dot.h"

#include <cinttypes>
#include <cstdarg>
#include <cstdio>
#include <unordered_map>

#include "api/graph/backend.h"
#include "api/graph/model.h"

namespace vgpu::graph {
namespace {

constexpr const char* kKinds[] = {
    "KERNEL",       "MEMCPY",       "MEMSET",           "HOST",           "GRAPH",     "EMPTY",
    "EVENT_WAIT",   "EVENT_RECORD", "EXT_SEMAS_SIGNAL", "EXT_SEMAS_WAIT", "MEM_ALLOC", "MEM_FREE",
    "BATCH_MEM_OP", "CONDITIONAL"};

constexpr const char* kConditionalTypes[] = {"IF", "WHILE", "SWITCH"};

[[gnu::format(printf, 2, 3)]] void append(std::string* text, const char* format, ...) {
  char line[512];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(line, sizeof(line), format, arguments);
  va_end(arguments);
  *text += line;
}

// Names come from the program's images: nothing in them may end the label.
std::string escaped(const std::string& name) {
  std::string text;
  for (const char c : name) {
    if (c == '"' || c == '\\') text += '\\';
    text += c == '\n' ? ' ' : c;
  }
  return text;
}

const char* side_name(CUmemorytype type) {
  switch (type) {
    case CU_MEMORYTYPE_HOST:
      return "HtoX";
    case CU_MEMORYTYPE_ARRAY:
      return "AtoX";
    default:
      return "DtoX";
  }
}

struct Writer {
  unsigned flags;
  std::string text;
  std::unordered_map<const Node*, std::string> names;

  bool wants(unsigned flag) const {
    return (flags & (flag | CU_GRAPH_DEBUG_DOT_FLAGS_VERBOSE)) != 0;
  }

  void label(const KernelPayload& kernel) {
    text += "\\n" + escaped(backend().kernel_name(kernel));
    const auto& p = kernel.params;
    if (wants(CU_GRAPH_DEBUG_DOT_FLAGS_KERNEL_NODE_PARAMS)) {
      append(&text, "\\ngrid %u,%u,%u block %u,%u,%u shared %u", p.gridDimX, p.gridDimY, p.gridDimZ,
             p.blockDimX, p.blockDimY, p.blockDimZ, p.sharedMemBytes);
    }
    if (wants(CU_GRAPH_DEBUG_DOT_FLAGS_KERNEL_NODE_ATTRIBUTES)) {
      int priority = 0;
      (void)kernel.attributes.priority(&priority);
      append(&text, "\\ncooperative %d priority %d", kernel.attributes.cooperative() ? 1 : 0,
             priority);
    }
    if (wants(CU_GRAPH_DEBUG_DOT_FLAGS_HANDLES))
      append(&text, "\\nfunction %p", static_cast<void*>(p.func));
  }

  void label(const CopyPayload& copy) {
    const auto& p = copy.params;
    append(&text, "\\n%.1sto%.1s", side_name(p.srcMemoryType), side_name(p.dstMemoryType));
    if (!wants(CU_GRAPH_DEBUG_DOT_FLAGS_MEMCPY_NODE_PARAMS)) return;
    append(&text, "\\n%zu x %zu x %zu", p.WidthInBytes, p.Height, p.Depth);
  }

  void label(const FillPayload& fill) {
    if (!wants(CU_GRAPH_DEBUG_DOT_FLAGS_MEMSET_NODE_PARAMS)) return;
    const auto& p = fill.params;
    append(&text, "\\n0x%llx value %u of %u bytes, %zu x %zu", p.dst, p.value, p.elementSize,
           p.width, p.height);
  }

  void label(const HostPayload& host) {
    if (!wants(CU_GRAPH_DEBUG_DOT_FLAGS_HOST_NODE_PARAMS)) return;
    append(&text, "\\nfn %p data %p", reinterpret_cast<void*>(host.params.fn),
           host.params.userData);
  }

  void label(const EventPayload& event) {
    if (wants(CU_GRAPH_DEBUG_DOT_FLAGS_EVENT_NODE_PARAMS))
      append(&text, "\\nevent %p", static_cast<void*>(event.event));
  }

  void label(const OperationsPayload& operations) {
    if (wants(CU_GRAPH_DEBUG_DOT_FLAGS_BATCH_MEM_OP_NODE_PARAMS))
      append(&text, "\\n%zu operations", operations.operations.size());
  }

  void label(const AllocPayload& alloc) {
    if (wants(CU_GRAPH_DEBUG_DOT_FLAGS_MEM_ALLOC_NODE_PARAMS))
      append(&text, "\\n0x%llx, %zu bytes", alloc.params.dptr, alloc.params.bytesize);
  }

  void label(const FreePayload& free) {
    if (wants(CU_GRAPH_DEBUG_DOT_FLAGS_MEM_FREE_NODE_PARAMS))
      append(&text, "\\n0x%llx", free.address);
  }

  void label(const ConditionalPayload& node) {
    if (!wants(CU_GRAPH_DEBUG_DOT_FLAGS_CONDITIONAL_NODE_PARAMS)) return;
    append(&text, "\\n%s of %zu, handle 0x%llx", kConditionalTypes[node.type], node.bodies.size(),
           static_cast<unsigned long long>(node.conditional->handle));
    if (node.conditional->assigns) append(&text, ", begins as %u", node.conditional->value);
  }

  void label(const ChildPayload&) {}
  void label(const EmptyPayload&) {}

  void write(const Graph& graph, const std::string& prefix) {
    size_t number = 0;
    for (const auto& node : graph.nodes) {
      const std::string name = prefix + "_node_" + std::to_string(number++);
      names[node.get()] = name;
      append(&text, "\"%s\" [shape=\"%s\" label=\"%zu\\n%s", name.c_str(),
             node->type == CU_GRAPH_NODE_TYPE_KERNEL ? "octagon" : "rectangle", number - 1,
             kKinds[node->type]);
      std::visit([this](const auto& payload) { label(payload); }, node->payload);
      if (wants(CU_GRAPH_DEBUG_DOT_FLAGS_HANDLES))
        append(&text, "\\nnode %p", static_cast<void*>(Model::instance().handle_of(*node)));
      text += "\"];\n";
      size_t inside = 0;
      each_inner(node->payload, [&](auto& inner) {
        std::string part = name;  // of a conditional node there are several
        if (node->type == CU_GRAPH_NODE_TYPE_CONDITIONAL)
          part += "_body_" + std::to_string(inside++);
        append(&text, "subgraph \"cluster_%s\" {\nlabel=\"%s\";\n", part.c_str(), part.c_str());
        write(*inner, part);
        text += "}\n";
      });
    }
    for (const auto& node : graph.nodes) {
      for (const Edge& edge : node->before)
        append(&text, "\"%s\" -> \"%s\";\n", names[edge.node].c_str(), names[node.get()].c_str());
    }
  }
};

}  // namespace

std::string dot_text(const Graph& graph, unsigned flags) {
  Writer writer{flags, "digraph dot {\nsubgraph cluster_1 {\nlabel=\"graph_1\";\n", {}};
  writer.write(graph, "graph_1");
  return writer.text + "}\n}\n";
}

CUresult write_text(const char* path, const std::string& text) {
  std::FILE* file = std::fopen(path, "we");
  if (file == nullptr) return CUDA_ERROR_OPERATING_SYSTEM;
  const bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  const bool closed = std::fclose(file) == 0;
  return written && closed ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
}

}  // namespace vgpu::graph
