// The one pointer to the host library's functions.
// SPDX-License-Identifier: Apache-2.0
#include "api/cudart/host.h"

namespace vgpu::cudart {
namespace {
const Host* the_host = nullptr;
}  // namespace

void set_host(const Host* host) { the_host = host; }
const Host& host() { return *the_host; }

}  // namespace vgpu::cudart
