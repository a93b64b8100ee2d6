// The one pointer to the host library's functions.
// SPDX-License-Identifier: Apache-2.0
#include "api/cudart/host.h"

#include <atomic>

namespace vgpu::cudart {
namespace {
std::atomic<const Host*> the_host{nullptr};
}  // namespace

// release: partner is the acquire in host().
void set_host(const Host* host) { the_host.store(host, std::memory_order_release); }
const Host& host() { return *the_host.load(std::memory_order_acquire); }

}  // namespace vgpu::cudart
