// Parsed PTX modules.
// SPDX-License-Identifier: Apache-2.0
#include "softgpu/program.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <utility>

#include "softgpu/jit/engine.h"
#include "softgpu/passes/call_graph.h"
#include "softgpu/passes/kernel.h"
#include "softgpu/passes/shared_layout.h"
#include "softgpu/ptx/link.h"
#include "softgpu/ptx/parser.h"

namespace vgpu::softgpu {
namespace {

KernelInfo info_of(const ptx::Module& module, const ptx::Function& f) {
  KernelInfo info;
  info.name = f.name;
  for (const ptx::Variable& p : f.params) {
    info.params.push_back({p.offset, static_cast<uint32_t>(p.bytes), p.align});
  }
  info.param_bytes = f.param_bytes;
  info.static_shared_bytes = shared_layout(module, f).bytes;
  info.local_bytes = f.local_slice();
  // PTX has as many registers as it likes; a ptxas-like number for occupancy is a fraction of them,
  // within limits.
  const auto declared = static_cast<uint32_t>(f.registers.size());
  info.registers = declared / 4 < 16 ? 16 : declared / 4 > 255 ? 255 : declared / 4;
  for (int i = 0; i < 3; ++i) {
    info.max_threads[i] = f.max_threads[i];
    info.required_threads[i] = f.required_threads[i];
    info.required_cluster[i] = f.required_cluster[i];
  }
  info.explicit_cluster = f.explicit_cluster;
  info.max_cluster_blocks = f.max_cluster_blocks;
  info.ptx_version = module.version;
  info.target_sm = module.target;
  return info;
}

// What it has more of than a kernel may have, as natively; empty: nothing.
std::string excess_of(const KernelInfo& info) {
  constexpr uint32_t kParameters = 32764, kStaticShared = 48u << 10;
  if (info.param_bytes > kParameters)
    return std::to_string(info.param_bytes) + " bytes of parameters, more than 32764";
  if (info.static_shared_bytes > kStaticShared)
    return std::to_string(info.static_shared_bytes) +
           " bytes of static shared memory, more than 48 KiB";
  return "";
}

// For each kernel a digest of the module's text without the other kernels: what it may call or
// name, and itself. Of the others only the functions that they point to.
std::vector<std::string> digests_of(std::string_view text, const ptx::Module& module) {
  std::vector<const ptx::Function*> kernels;
  for (const ptx::Function& f : module.functions) {
    if (f.is_kernel && !f.is_declaration) kernels.push_back(&f);
  }
  XXH3_state_t common;
  XXH3_128bits_reset(&common);
  std::vector<std::pair<size_t, size_t>> bodies;
  for (const ptx::Function* f : kernels) bodies.emplace_back(f->text_begin, f->text_end);
  std::sort(bodies.begin(), bodies.end());
  size_t at = 0;
  for (const auto& [begin, end] : bodies) {
    XXH3_128bits_update(&common, text.data() + at, begin - at);
    at = end;
  }
  XXH3_128bits_update(&common, text.data() + at, text.size() - at);
  // A call through a pointer may reach whatever any kernel takes the address of.
  for (const std::string& name : address_taken(module))
    XXH3_128bits_update(&common, name.c_str(), name.size() + 1);
  std::vector<std::string> digests;
  for (const ptx::Function* f : kernels) {
    XXH3_state_t own;
    XXH3_copyState(&own, &common);
    XXH3_128bits_update(&own, text.data() + f->text_begin, f->text_end - f->text_begin);
    const XXH128_hash_t hash = XXH3_128bits_digest(&own);
    digests.emplace_back(reinterpret_cast<const char*>(&hash), sizeof hash);
  }
  return digests;
}

// Any kernel of a linked program may call into any of the texts.
std::vector<std::string> digests_of_linked(const std::vector<std::string_view>& texts,
                                           const std::vector<KernelInfo>& kernels) {
  XXH3_state_t common;
  XXH3_128bits_reset(&common);
  for (const std::string_view text : texts) {
    const uint64_t bytes = text.size();
    XXH3_128bits_update(&common, &bytes, sizeof bytes);
    XXH3_128bits_update(&common, text.data(), text.size());
  }
  std::vector<std::string> digests;
  for (const KernelInfo& kernel : kernels) {
    XXH3_state_t own;
    XXH3_copyState(&own, &common);
    XXH3_128bits_update(&own, kernel.name.data(), kernel.name.size());
    const XXH128_hash_t hash = XXH3_128bits_digest(&own);
    digests.emplace_back(reinterpret_cast<const char*>(&hash), sizeof hash);
  }
  return digests;
}

}  // namespace

Program::Program() : module_(std::make_unique<ptx::Module>()) {}
Program::~Program() = default;

const std::map<std::string, std::string>& Program::aliases() const { return module_->aliases; }

std::shared_ptr<const Program> Program::parse(std::string_view text, Diagnostic* error) {
  std::shared_ptr<Program> program(new Program);
  if (!ptx::parse_module(text, program->module_.get(), error)) return nullptr;
  if (!program->describe(error)) return nullptr;
  program->digests_ = digests_of(text, *program->module_);
  return program;
}

std::shared_ptr<const Program> Program::link(const std::vector<std::string_view>& texts,
                                             Diagnostic* error) {
  std::vector<ptx::Module> modules(texts.size());
  for (size_t i = 0; i < texts.size(); ++i) {
    if (!ptx::parse_module(texts[i], &modules[i], error)) return nullptr;
  }
  std::shared_ptr<Program> program(new Program);
  *error = {};
  if (!ptx::link_modules(std::move(modules), program->module_.get(), &error->text)) return nullptr;
  if (!program->describe(error)) return nullptr;
  program->digests_ = digests_of_linked(texts, program->kernels_);
  return program;
}

std::vector<Diagnostic> Program::refusals() const {
  std::vector<Diagnostic> all;
  for (const ptx::Function& f : module_->functions) {
    if (f.is_declaration || !f.is_kernel) continue;  // others are compiled with their callers
    Kernel kernel;
    Diagnostic error;
    if (!build_kernel(*module_, f, &kernel, &error)) {
      all.push_back(error);
      continue;
    }
    const Variant variant{.row = 32};
    analyse(&kernel, variant);
    const std::vector<Diagnostic> list = Engine::instance().refusals(kernel, variant);
    all.insert(all.end(), list.begin(), list.end());
  }
  return all;
}

bool Program::describe(Diagnostic* error) {
  for (const ptx::Function& f : module_->functions) {
    if (!f.is_kernel || f.is_declaration) continue;
    kernels_.push_back(info_of(*module_, f));
    if (const std::string excess = excess_of(kernels_.back()); !excess.empty()) {
      *error = {};
      error->line = f.line;
      error->text = "kernel '" + f.name + "' has " + excess;
      return false;
    }
  }
  globals_ = module_->globals;
  address_taken_ = softgpu::address_taken(*module_);
  return true;
}

}  // namespace vgpu::softgpu
