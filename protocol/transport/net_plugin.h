// What the shim and the tools ask of libvgpu-net.so, which alone knows libzmq and libfabric.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_PROTOCOL_TRANSPORT_NET_PLUGIN_H_
#define VGPU_PROTOCOL_TRANSPORT_NET_PLUGIN_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "protocol/session/handshake.h"

namespace vgpu::protocol {

// Plain C: guest library and plug-in each have a C++ library of their own, and a program may have
// replaced the allocator of one of them. Nothing that one side has allocated is freed by the other.
inline constexpr uint32_t kNetPluginVersion = 1;  // raised with every change of these structs
inline constexpr char kNetPluginFile[] = "libvgpu-net.so";
inline constexpr char kNetPluginEntry[] = "vgpu_net_plugin";

struct NetRequest {
  const char* address = nullptr;  // tcp://…
  const uint8_t* message = nullptr;
  size_t message_bytes = 0;
  int32_t timeout_ms = 0;
  uint32_t reserved = 0;
};

// Mover (mover.h) as plain functions.
struct NetMover {
  void* owner = nullptr;
  void (*published)(void* owner) = nullptr;
  void (*expect)(void* owner, uint32_t slot, uint64_t offset, uint64_t bytes) = nullptr;
  void (*stage)(void* owner, uint64_t offset, const void* from, uint64_t bytes) = nullptr;
  bool (*help)(void* owner, bool (*ready)(void* argument), void* argument) = nullptr;
  void (*slept)(void* owner) = nullptr;
};

// The guest's end of a channel. It lives until the process ends.
struct NetChannel {
  void* memory = nullptr;
  uint64_t bytes = 0;
  void* owner = nullptr;
  int32_t liveness_fd = -1;  // the caller's from now on; hangs up when the server is gone
  uint32_t reserved = 0;
  // 0, or an errno value.
  int32_t (*send_descriptor)(void* owner, int32_t fd, uint64_t tag) = nullptr;
  NetMover mover;  // owner null: none
};

// The plug-in's side: a transport as a plain channel. It is given up to the process.
NetChannel net_channel(std::unique_ptr<Transport> transport);

struct NetAnswer {
  int32_t status = 0;      // StatusCode
  int32_t cuda_error = 0;  // what cuInit gives then; 0 when all is well
  void* sink = nullptr;    // the caller's, for the two functions
  void (*put_text)(void* sink, const char* text, size_t bytes) = nullptr;
  void (*put_message)(void* sink, const uint8_t* message, size_t bytes) = nullptr;
  NetChannel channel;  // of an attach that succeeded
};

struct NetPlugin {
  uint32_t version = kNetPluginVersion;
  uint32_t reserved = 0;
  // message: a Hello. Answered by the HelloReply and a channel.
  void (*attach)(const NetRequest* request, NetAnswer* answer) = nullptr;
  // message: an InfoRequest. Answered by whatever the server says.
  void (*ask)(const NetRequest* request, NetAnswer* answer) = nullptr;
  // A fresh pair in Z85, kKeyBytes and a NUL each; false: no random numbers.
  bool (*make_keys)(char* public_key, char* secret_key) = nullptr;
  // The public key of a secret one; false: it is none.
  bool (*public_key_of)(const char* secret_key, char* public_key) = nullptr;
};

using NetPluginEntry = const NetPlugin* (*)();

// Where the plug-in lies: VGPU_NET_PLUGIN when set, else beside the library or program that this
// code is in.
std::string net_plugin_path();

// Loads it for good. kUnavailable: it or a library that it needs is not there, kMismatch: it is of
// another version.
Result<const NetPlugin*> load_net_plugin(const std::string& path);

// As attach() of the handshake, by the plug-in.
Attachment attach_by_plugin(const NetPlugin& plugin, const Address& address, const Hello& hello,
                            int timeout_ms);

// One question to the server at `address`; a refusal is an answer.
Result<Message> ask_by_plugin(const NetPlugin& plugin, const Address& address,
                              const Message& question, int timeout_ms);

}  // namespace vgpu::protocol

#endif  // VGPU_PROTOCOL_TRANSPORT_NET_PLUGIN_H_
