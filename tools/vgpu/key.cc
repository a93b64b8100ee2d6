// Creating, showing, admitting, revoking, trusting.
// SPDX-License-Identifier: Apache-2.0
#include "tools/vgpu/key.h"

#include <unistd.h>

#include <cctype>
#include <cstdio>

#include "net/control/authorized_keys.h"
#include "net/control/keys.h"
#include "net/control/small_file.h"
#include "protocol/transport/net_plugin.h"
#include "tools/vgpu/places.h"

namespace vgpu::tools {
namespace {

int complain(const Status& status) {
  std::fprintf(stderr, "vgpu key: %s\n", status.text().c_str());
  return 1;
}

bool is_root() { return ::geteuid() == 0; }

std::string key_file(const KeyOptions& options) {
  if (!options.file.empty()) return options.file;
  return options.server ? net::find_config(net::kServerKeyFile, is_root()) : net::guest_key_path();
}

std::string authorized_file(const KeyOptions& options) {
  return options.file.empty() ? net::find_config(net::kAuthorizedKeysFile, is_root())
                              : options.file;
}

// A public key is given on command lines: its first character is none that means something there.
Result<net::KeyPair> make_pair(const protocol::NetPlugin& plugin) {
  char public_key[protocol::kKeyBytes + 1] = {}, secret_key[protocol::kKeyBytes + 1] = {};
  do {
    if (!plugin.make_keys(public_key, secret_key))
      return Status(StatusCode::kSystem, "no random numbers for a key");
  } while (std::isalnum(static_cast<unsigned char>(public_key[0])) == 0);
  return net::KeyPair(public_key, secret_key);
}

int create(const KeyOptions& options) {
  const Result<const protocol::NetPlugin*> plugin =
      protocol::load_net_plugin(find_places().net_plugin);
  if (!plugin.ok()) return complain(plugin.status());
  const Result<net::KeyPair> pair = make_pair(**plugin);
  if (!pair.ok()) return complain(pair.status());
  const std::string path = key_file(options);
  const Status written = net::write_key_file(path, *pair, options.replace);
  if (written.code() == StatusCode::kAlreadyExists) {
    return complain(Status(written.code(), written.text() +
                                               " (--force replaces it; whoever knows the old key "
                                               "then has to learn the new one)"));
  }
  if (!written.ok()) return complain(written);
  std::fprintf(stderr, "written to %s; the public key, for the other side:\n", path.c_str());
  std::printf("%s\n", pair->public_key.c_str());
  return 0;
}

int show(const KeyOptions& options) {
  const Result<net::KeyPair> pair = net::read_key_file(key_file(options));
  if (!pair.ok()) return complain(pair.status());
  std::printf("%s\n", pair->public_key.c_str());
  return 0;
}

int admit(const KeyOptions& options) {
  const std::string path = authorized_file(options);
  const Status done = net::authorize(path, {options.key, options.tenant, options.comment});
  if (!done.ok()) return complain(done);
  std::printf("%s admits it as %s; a running server knows at once\n", path.c_str(),
              options.tenant.c_str());
  return 0;
}

int withdraw(const KeyOptions& options) {
  const std::string path = authorized_file(options);
  size_t removed = 0;
  const Status done = net::revoke(path, options.key, &removed);
  if (!done.ok()) return complain(done);
  std::printf("%zu %s taken out of %s; their guests end\n", removed, removed == 1 ? "key" : "keys",
              path.c_str());
  return 0;
}

int trust(const KeyOptions& options) {
  const Result<protocol::Address> address = protocol::parse_address(options.address);
  if (!address.ok()) return complain(address.status());
  if (address->kind != protocol::Address::Kind::kTcp || !net::is_key(options.key)) {
    return complain(Status(StatusCode::kInvalidArgument,
                           "it takes an address like tcp://host:port and that server's public key "
                           "(40 characters, in single quotes for a shell)"));
  }
  const Status done = net::remember_server(*address, options.key);
  if (!done.ok()) return complain(done);
  std::printf("%s is known by this key\n", address->endpoint().c_str());
  return 0;
}

}  // namespace

int manage_keys(const KeyOptions& options) {
  switch (options.action) {
    case KeyAction::kCreate:
      return create(options);
    case KeyAction::kShow:
      return show(options);
    case KeyAction::kAuthorize:
      return admit(options);
    case KeyAction::kRevoke:
      return withdraw(options);
    case KeyAction::kTrust:
      return trust(options);
    case KeyAction::kNone:
      break;
  }
  return 2;
}

}  // namespace vgpu::tools
