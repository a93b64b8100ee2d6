// Which part of the down-slab the answer to a command fills.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_PROTOCOL_WIRE_EXPECTATION_H_
#define VGPU_PROTOCOL_WIRE_EXPECTATION_H_

#include <cstdint>

#include "protocol/transport/mover.h"

namespace vgpu::protocol {

// Tells the mover, before the record that names reply slot `slot` is published. Commands that have
// results there say where: slab_offset, and slab_bytes or bytes.
template <typename Args>
void expect_results(Mover* mover, const Args& args, uint32_t slot) {
  if constexpr (requires { args.slab_bytes; }) {
    mover->expect(slot, args.slab_offset, args.slab_bytes);
  } else if constexpr (requires { args.slab_offset; }) {
    mover->expect(slot, args.slab_offset, args.bytes);
  } else {
    mover->expect(slot, 0, 0);
  }
}

}  // namespace vgpu::protocol

#endif  // VGPU_PROTOCOL_WIRE_EXPECTATION_H_
