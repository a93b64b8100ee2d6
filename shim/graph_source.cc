// Sources of conditional handles.
// SPDX-License-Identifier: Apache-2.0
#include "shim/graph_source.h"

#include "base/slot_map.h"
#include "op.h"
#include "protocol/wire/graph_nodes.h"

namespace vgpu::shim {
namespace {

constexpr uint64_t kSourceTag = 0x24;  // beside those of api/graph

// Names of sources; under the model's lock. Never destroyed.
SlotMap<uint8_t, kSourceTag>& names() {
  static auto* const all = new SlotMap<uint8_t, kSourceTag>();
  return *all;
}

struct Source final : graph::ConditionalSource {
  Source(Session* owner, Context* made_in)
      : session(owner),
        context(made_in),
        life(made_in->unique_id),
        id(names().insert(uint8_t{0})) {}
  ~Source() override {
    const bool alive = session->state() == CUDA_SUCCESS && context->unique_id == life &&
                       context->active.load(std::memory_order_acquire);
    if (alive && handles != 0) {
      wire::GraphForgetArgs args;
      args.source = id;
      (void)session->post(context, Op::kGraphForget, args);
    }
    names().remove(id);
  }

  Session* const session;
  Context* const context;
  const uint64_t life;
  const uint64_t id;
  uint32_t handles = 0;  // that the worker has given
};

}  // namespace

static_assert(graph::kNestingMax == protocol::kGraphNestingMax);

CUresult make_conditional(Session* session, Context* context,
                          std::shared_ptr<graph::ConditionalSource>* source,
                          graph::Conditional* conditional) {
  if (*source == nullptr) {
    auto made = std::make_shared<Source>(session, context);
    if (made->id == 0) return CUDA_ERROR_OUT_OF_MEMORY;
    *source = std::move(made);
  }
  auto& named = static_cast<Source&>(**source);
  if (named.context != context || named.life != context->unique_id)
    return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  if (named.handles == protocol::kGraphConditionalsMax) return CUDA_ERROR_OUT_OF_MEMORY;
  wire::GraphConditionalArgs args;
  args.source = named.id;
  args.value = conditional->value;
  args.flags = conditional->assigns ? CU_GRAPH_COND_ASSIGN_DEFAULT : 0;
  wire::GraphConditionalReply answer;
  const CUresult r = session->ask(context, Op::kGraphConditional, args, &answer);
  if (r != CUDA_SUCCESS) return r;
  conditional->handle = answer.handle;
  ++named.handles;
  return CUDA_SUCCESS;
}

uint64_t source_of(const graph::Plan& plan) {
  for (const graph::Step& step : plan.steps) {
    if (step.bodies.empty()) continue;
    const auto& node = std::get<graph::ConditionalPayload>(step.node->payload);
    return static_cast<const Source&>(*node.conditional->source).id;
  }
  return 0;
}

}  // namespace vgpu::shim
