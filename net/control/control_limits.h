// Limits of the control plane, each with its unit, and what happens when it is reached.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_NET_CONTROL_CONTROL_LIMITS_H_
#define VGPU_NET_CONTROL_CONTROL_LIMITS_H_

#include <cstddef>
#include <cstdint>

namespace vgpu::net {

// --- a server's gate
// -----------------------------------------------------------------------------------
// Connections, also those that have not shown a key yet. Then the listener rests until some go.
inline constexpr size_t kConnectionsMax = 512;
inline constexpr int kBacklog = 64;
inline constexpr int kHandshakeMs = 5000;      // a connection that shows no key is closed
inline constexpr int kMessagesWaitingMax = 8;  // of one connection, each way; then it is not read
inline constexpr size_t kFramesMax = 4;        // of one message; more: malformed
inline constexpr size_t kSessionsMax = 256;    // then attaching is refused
inline constexpr size_t kSessionsPerKeyMax = 64;
inline constexpr size_t kPendingMax = 32;  // sessions that are starting; then refused
inline constexpr int kPendingMs = 15'000;  // for a session to start
inline constexpr int kQuestionMs = 3000;   // for vgpud to answer
inline constexpr int kHandOverMs = 1000;   // for vgpud to take a guest

// Attaches of one key: a burst, then so many a second; then refused.
inline constexpr double kAttachBurst = 20;
inline constexpr double kAttachesPerSecond = 10;
// Questions (vgpu info) of one key.
inline constexpr double kQuestionBurst = 20;
inline constexpr double kQuestionsPerSecond = 5;
// Lines of the log about what strangers do.
inline constexpr double kStrangeLineBurst = 10;
inline constexpr double kStrangeLinesPerSecond = 1;

// What a gate may hold in memory beyond what it began with. Libzmq bounds the messages of a
// connection, but not the frames of one that never ends: then the socket is made anew, and guests
// connect again.
inline constexpr uint64_t kMemoryGrowthMax = 128 << 20;

// Of the data connection. Providers that a guest may ask for, and none of libfabric's others.
inline constexpr char kProviderDefault[] = "tcp";
inline constexpr const char* kProviders[] = {"tcp", "verbs", "efa"};

// --- signs of life
// -------------------------------------------------------------------------------------
inline constexpr uint32_t kBeatMs = 1000;
// A connection that is known to be gone, as its end has come: so long for the guest to be there
// again; or for the server, whose machine says that nobody listens. What only says nothing has the
// session's grace.
inline constexpr int kLostMs = 1500;
inline constexpr int kLostMsOfGuest = 3000;
inline constexpr int kReconnectMs = 100;
// A guest's connection whose path says nothing for so long is made anew, and so is one that does
// not get ready.
inline constexpr int kPathMs = 5000;
inline constexpr int kConnectMs = 2000;
inline constexpr int kKnockMs = 500;  // for the server's machine to say that nobody listens
// Data connections that guests of one key ask for, after cuts: a burst, then so many a second; then
// they are not heard.
inline constexpr double kResumeBurst = 200;
inline constexpr double kResumesPerSecond = 50;
// How long a guest's last word is given to leave when its process ends.
inline constexpr int kGoodbyeMs = 200;

// --- a gate that vgpud has lost, or that has lost vgpud
// --------------------------------------------------------
inline constexpr int kBindMs = 5000;  // for an earlier gate to give the address up

}  // namespace vgpu::net

#endif  // VGPU_NET_CONTROL_CONTROL_LIMITS_H_
