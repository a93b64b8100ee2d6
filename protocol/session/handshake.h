// Attaching a guest: one message each way, and the channel's memory with the answer.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_PROTOCOL_SESSION_HANDSHAKE_H_
#define VGPU_PROTOCOL_SESSION_HANDSHAKE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "protocol/session/channel.h"
#include "protocol/session/messages.h"
#include "protocol/transport/connect.h"
#include "protocol/transport/descriptor.h"

//   guest                        vgpud                          worker
//     Hello ───────────────────►  check_hello, grant
//                                 (connection + Hello) ────────►  answer_hello
//     ◄───────────────────────────────────────  HelloReply + memory descriptor
//   or
//     ◄─────────────────────────  Refusal

namespace vgpu::protocol {

// CUresult numbers that the handshake itself gives; written out so that this needs no cuda.h.
inline constexpr int32_t kCudaInvalidValue = 1;
inline constexpr int32_t kCudaOutOfMemory = 2;
inline constexpr int32_t kCudaNoDevice = 100;
inline constexpr int32_t kCudaNotPermitted = 800;
inline constexpr int32_t kCudaSystemNotReady = 802;
inline constexpr int32_t kCudaSystemDriverMismatch = 803;

// --- guest
// -----------------------------------------------------------------------------------------

struct Attachment {
  Status status;           // why not
  int32_t cuda_error = 0;  // what cuInit returns then; 0 when attached
  HelloReply reply;
  std::unique_ptr<GuestChannel> channel;  // its transport holds the connection
};

// Connects, says hello and waits for the answer, all within timeout_ms. hello.wire_hash is this
// side's. Afterwards the liveness descriptor of channel->transport() must be watched: HUP ->
// channel->mark_dead().
Attachment attach(const Address& address, const Hello& hello, int timeout_ms);

// The same over a socket that is connected already.
Attachment attach_over(UniqueFd connection, const Hello& hello, int timeout_ms);

// Whether the reply is one to this hello: same version and wire, ranges that were offered.
Status check_reply(const Hello& hello, const HelloReply& reply);

// What cuInit gives for a failure of this kind.
int32_t cuda_error_of(StatusCode code);

// --- server
// ----------------------------------------------------------------------------------------

// Whether a guest may go on: same protocol version and wire. kMismatch names both sides.
Status check_hello(const Hello& hello, uint64_t wire_hash, const std::string& server_version);

// The message for a guest that is turned away because of `status`.
Refusal refusal_for(const Status& status);

// Worker: takes the piece of a region that follows a hello with kHelloRegion, and says in *reply
// what the channel is like that fits into it. Waits for it up to timeout_ms.
Result<RegionOffer> take_region(int connection, HelloReply* reply, int timeout_ms);

// Worker: puts the channel into that piece, sends the reply, and keeps the connection.
Result<std::unique_ptr<WorkerChannel>> answer_hello_in(UniqueFd connection, const HelloReply& reply,
                                                       RegionOffer offer,
                                                       SpinMode spin = SpinMode::kAdaptive);

// Worker: makes the channel's sealed memory of reply.sizes, sends the reply with it and keeps the
// connection.
Result<std::unique_ptr<WorkerChannel>> answer_hello(UniqueFd connection, const HelloReply& reply,
                                                    SpinMode spin = SpinMode::kAdaptive);

}  // namespace vgpu::protocol

#endif  // VGPU_PROTOCOL_SESSION_HANDSHAKE_H_
