// Keys of guests and servers, and the files that hold them (docs/network.md).
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_NET_CONTROL_KEYS_H_
#define VGPU_NET_CONTROL_KEYS_H_

#include <string>
#include <string_view>

#include "base/status.h"
#include "protocol/transport/connect.h"

namespace vgpu::net {

inline constexpr char kGuestKeyFile[] = "guest.key";
inline constexpr char kServerKeyFile[] = "server.key";
inline constexpr char kKnownServersFile[] = "known_servers";

// Keys are 32 bytes in Z85: 40 characters without blanks or quotes.
bool is_key(std::string_view text);

struct KeyPair {
  KeyPair() = default;
  KeyPair(std::string public_part, std::string secret_part)
      : public_key(std::move(public_part)), secret_key(std::move(secret_part)) {}
  KeyPair(KeyPair&&) = default;
  KeyPair& operator=(KeyPair&&) = default;
  ~KeyPair();  // the secret does not stay in memory

  std::string public_key, secret_key;
};

// Checks owner, mode (0600) and form. Whether the halves belong together the caller asks of libzmq.
Result<KeyPair> read_key_file(const std::string& path);
// kAlreadyExists unless `replace`.
Status write_key_file(const std::string& path, const KeyPair& pair, bool replace);

// Which key the server at `address` must have: VGPU_SERVER_KEY, else the line "host:port KEY" of a
// known_servers file, the user's before the system's. kNotFound says what to do.
Result<std::string> known_server_key(const protocol::Address& address);
// Writes that line into the user's file, in the place of an earlier one.
Status remember_server(const protocol::Address& address, const std::string& key);

// The guest's key file: VGPU_KEY, else the user's, else the system's.
std::string guest_key_path();

}  // namespace vgpu::net

#endif  // VGPU_NET_CONTROL_KEYS_H_
