// Limits of the data plane between hosts, each with its unit.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_NET_FABRIC_FABRIC_LIMITS_H_
#define VGPU_NET_FABRIC_FABRIC_LIMITS_H_

#include <cstddef>
#include <cstdint>

namespace vgpu::net {

inline constexpr uint32_t kNetVersion = 2;  // of the messages in messages.h

// One message. A longer one ends the connection; what does not fit goes into the next.
inline constexpr size_t kMessageBytesMax = 16 * 1024;
// Messages on their way that the peer has not acknowledged. A side that has so many waits, and
// what it would have said is gathered for the next one. Acknowledgements alone may go beyond that.
inline constexpr uint64_t kMessagesInFlightMax = 32;
inline constexpr uint64_t kAcksInFlightMax = 48;
inline constexpr uint64_t kMessagesPerAck = 16;  // an acknowledgement of its own after so many
inline constexpr size_t kReceivesPosted = 64;    // more than a peer that keeps the rules can use

// Records up to this size travel in the message that announces them.
inline constexpr uint64_t kInlineRingBytesMax = 8192;
// Results in the down-slab up to this size travel in the message that answers.
inline constexpr uint64_t kInlineDownBytesMax = 4096;
// One RMA write; longer ranges are cut. Below what every provider keeps in order (verbs: 8 MiB).
inline constexpr uint64_t kWriteBytesMax = 1 << 20;

inline constexpr size_t kSecretBytes = 32;  // of the one-time secret that binds a connection

// --- waiting
// ---------------------------------------------------------------------------------------
// How long a guest's thread that waits for an answer looks for it itself before it sleeps.
inline constexpr int64_t kHelpNsMax = 100'000;
// While threads help themselves, the progress thread looks only so often.
inline constexpr int64_t kLeaseNs = 500'000;
// How long a progress thread stays awake after the last thing that moved.
inline constexpr int64_t kProgressSpinNs = 30'000;
// Words that nobody is known to wait for are reported once they are so old.
inline constexpr int64_t kReportAgeNs = 20'000;

// --- connecting
// ------------------------------------------------------------------------------------
// For a connection that is being made after a cut to be of use, as both sides see it, between two
// attempts, and while a copy waits. The first has all of the time that there is for attaching.
inline constexpr int kReconnectTimeoutMs = 3'000;
inline constexpr int kReconnectPauseMs = 50;
inline constexpr int64_t kCutPauseNs = 200'000;
// How long a path that says nothing is believed to be there, where the provider is one of sockets.
inline constexpr int kPathSilentMs = 5'000;
// What has been written is given this long to leave when a gate ends.
inline constexpr int64_t kFlushNsMax = 500'000'000;

}  // namespace vgpu::net

#endif  // VGPU_NET_FABRIC_FABRIC_LIMITS_H_
