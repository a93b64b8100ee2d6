// vgpu key: keys of guests and servers, and who is admitted.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_TOOLS_VGPU_KEY_H_
#define VGPU_TOOLS_VGPU_KEY_H_

#include <string>

namespace vgpu::tools {

enum class KeyAction { kNone, kCreate, kShow, kAuthorize, kRevoke, kTrust };

struct KeyOptions {
  KeyAction action = KeyAction::kNone;
  bool server = false;   // create, show: the server's key rather than the guest's
  bool replace = false;  // create: also where there is one
  std::string file;      // empty: the usual place
  std::string key;       // authorize, trust: a public key; revoke: a key or a tenant
  std::string tenant;    // authorize
  std::string comment;   // authorize
  std::string address;   // trust
};

// Does it and says so. The exit code: 0, or 1 with the reason on stderr.
int manage_keys(const KeyOptions& options);

}  // namespace vgpu::tools

#endif  // VGPU_TOOLS_VGPU_KEY_H_
