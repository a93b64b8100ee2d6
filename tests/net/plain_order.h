// How tests bring the two ends of a session between hosts together: without keys, over a unix
// socket. SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_TESTS_NET_PLAIN_ORDER_H_
#define VGPU_TESTS_NET_PLAIN_ORDER_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "net/fabric/fabric.h"
#include "protocol/session/messages.h"

//   guest                              plain_gate
//     PlainOrder + Hello ────────────►    attaches to vgpud with that hello
//     ◄────────────── PlainReady + HelloReply    and waits for the connection
//   or
//     ◄────────────────────── Refusal (as vgpud said it)

namespace vgpu::net {

// Unix path of the plain_gate, for the plug-in.
inline constexpr char kRendezvousVariable[] = "VGPU_TEST_RENDEZVOUS";

struct PlainOrder {
  Secret secret{};  // that the guest will show
  protocol::Hello hello;
};

struct PlainReady {
  std::string address;  // where the session listens
  protocol::HelloReply reply;
};

std::vector<uint8_t> encode_order(const PlainOrder& order);
Result<PlainOrder> decode_order(std::span<const uint8_t> frame);

std::vector<uint8_t> encode_ready(const PlainReady& ready);
// A refusal comes back as its status: kRefused, with the CUresult as os_error.
Result<PlainReady> decode_ready(std::span<const uint8_t> frame);

}  // namespace vgpu::net

#endif  // VGPU_TESTS_NET_PLAIN_ORDER_H_
