// Pages of managed variables, which the worker's driver has placed.
// SPDX-License-Identifier: Apache-2.0
#include <sys/mman.h>

#include "protocol/transport/transport.h"
#include "shim/session.h"

namespace vgpu::shim {

CUresult map_managed(Session& session, uint64_t base, uint64_t bytes) {
  constexpr int kTimeoutMs = 2000;  // it was sent before the answer: it is here or never
  protocol::Transport& transport = session.channel().transport();
  if (transport.same_address_space()) return CUDA_SUCCESS;
  const auto pages = transport.receive_descriptor(kTimeoutMs);
  if (!pages.ok() || pages->second != base || base % protocol::kPageBytes != 0 ||
      bytes % protocol::kPageBytes != 0 ||
      !protocol::check_sealed_memory(pages->first.get(), bytes).ok()) {
    return CUDA_ERROR_UNKNOWN;
  }
  // Where pages of an unloaded module still lie, the new ones take their place. Nothing of the
  // application's may, such as what lies behind those.
  const bool ours = session.managed().contains(base, bytes);
  const int place = ours ? MAP_FIXED : MAP_FIXED_NOREPLACE;
  auto* const wanted = reinterpret_cast<void*>(base);
  void* const got =
      ::mmap(wanted, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | place, pages->first.get(), 0);
  if (got == wanted) return CUDA_SUCCESS;
  if (got != MAP_FAILED) ::munmap(got, bytes);
  return CUDA_ERROR_OUT_OF_MEMORY;
}

}  // namespace vgpu::shim
