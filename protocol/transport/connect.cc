// Addresses and unix sockets.
// SPDX-License-Identifier: Apache-2.0
#include "protocol/transport/connect.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include <cstdio>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/env.h"

namespace vgpu::protocol {
namespace {

constexpr int kAgainMs = 5;  // between two tries to connect

constexpr std::string_view kUnixScheme = "unix:";
constexpr std::string_view kTcpScheme = "tcp://";
constexpr std::string_view kProviderParameter = "provider=";
constexpr size_t kHostBytesMax = 255;
constexpr size_t kProviderBytesMax = 63;

// Empty variables count as unset, as XDG says.
std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

std::string user_runtime_path() {
  const std::string folder = variable("XDG_RUNTIME_DIR");
  return folder.empty() || folder[0] != '/' ? "" : folder + "/vgpu/vgpud.sock";
}

std::string user_tmp_path() { return "/tmp/vgpu-" + std::to_string(::getuid()) + "/vgpud.sock"; }

constexpr const char* kSystemPath = "/run/vgpu/vgpud.sock";

bool fill(const std::string& path, sockaddr_un* address) {
  *address = {};
  address->sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof(address->sun_path)) return false;
  std::memcpy(address->sun_path, path.data(), path.size());
  return true;
}

Status too_long(const std::string& path) {
  return Status(StatusCode::kInvalidArgument, "socket path has " + std::to_string(path.size()) +
                                                  " bytes, at most 107 fit: " + path);
}

int connect_retrying(int fd, const sockaddr_un& address) {
  int done = 0;
  do {
    done = ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  } while (done != 0 && errno == EINTR);
  return done;
}

bool is_socket(const std::string& path) {
  struct stat info {};
  return ::lstat(path.c_str(), &info) == 0 && S_ISSOCK(info.st_mode);
}

// As open as the socket in it: whoever may connect must get through.
Status make_folder_of(const std::string& path, unsigned socket_mode) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos || slash == 0) return ok_status();
  const std::string folder = path.substr(0, slash);
  struct stat info {};
  if (::stat(folder.c_str(), &info) == 0) return ok_status();
  VGPU_RETURN_IF_ERROR(make_folder_of(folder, socket_mode));
  if (::mkdir(folder.c_str(), 0700) != 0) {
    return errno == EEXIST ? ok_status() : Status::from_errno(errno, ("mkdir " + folder).c_str());
  }
  const mode_t through =
      0700 | ((socket_mode & 060) != 0 ? 0050 : 0) | ((socket_mode & 06) != 0 ? 0055 : 0);
  if (::chmod(folder.c_str(), through) != 0)
    return Status::from_errno(errno, ("chmod " + folder).c_str());
  return ok_status();
}

bool only_has(std::string_view text, std::string_view more) {
  return std::all_of(text.begin(), text.end(), [&](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           more.find(c) != std::string_view::npos;
  });
}

bool host_ok(std::string_view host) {
  if (host.empty() || host.size() > kHostBytesMax) return false;
  if (host.front() != '[') return host == "*" || only_has(host, "-._");
  return host.size() > 3 && host.back() == ']' &&
         only_has(host.substr(1, host.size() - 2), ":.%-_");
}

// What follows tcp://
Result<Address> parse_tcp(std::string_view text) {
  const Status bad(StatusCode::kInvalidArgument,
                   "address must be tcp://host:port[?provider=name], not: tcp://" +
                       std::string(text.substr(0, kHostBytesMax)));
  Address address{Address::Kind::kTcp};
  const size_t question = std::min(text.find('?'), text.size());
  const std::string_view place = text.substr(0, question);
  const size_t colon = place.rfind(':');
  if (colon == std::string_view::npos || !host_ok(place.substr(0, colon))) return bad;
  const std::string_view digits = place.substr(colon + 1);
  const auto port = parse_integer(digits);
  if (!port || digits.size() > 5 ||
      digits.find_first_not_of("0123456789") != std::string_view::npos || *port < 0 ||
      *port > 65535)
    return bad;
  address.host = place.substr(0, colon);
  address.port = static_cast<uint16_t>(*port);
  if (question == text.size()) return address;
  std::string_view provider = text.substr(question + 1);
  if (!provider.starts_with(kProviderParameter)) return bad;
  provider.remove_prefix(kProviderParameter.size());
  if (provider.empty() || provider.size() > kProviderBytesMax || !only_has(provider, "_;-"))
    return bad;
  address.provider = provider;
  return address;
}

}  // namespace

std::string Address::endpoint() const {
  return std::string(kTcpScheme) + host + ":" + std::to_string(port);
}

std::string Address::to_string() const {
  if (kind == Kind::kLoop) return "loop:";
  if (kind == Kind::kUnix) return std::string(kUnixScheme) + path;
  return endpoint() + (provider.empty() ? "" : "?" + std::string(kProviderParameter) + provider);
}

Result<Address> parse_address(std::string_view text) {
  if (text == "loop:") return Address{Address::Kind::kLoop, ""};
  if (text.starts_with(kTcpScheme)) return parse_tcp(text.substr(kTcpScheme.size()));
  std::string_view path = text;
  if (path.starts_with(kUnixScheme)) path.remove_prefix(kUnixScheme.size());
  if (path.starts_with('/')) {
    sockaddr_un unused{};
    if (!fill(std::string(path), &unused)) return too_long(std::string(path));
    return Address{Address::Kind::kUnix, std::string(path)};
  }
  const bool known = text.starts_with(kUnixScheme);
  if (!known && text.find(':') != std::string_view::npos) {
    return Status(StatusCode::kNotSupported, "unknown kind of address: " + std::string(text));
  }
  return Status(
      StatusCode::kInvalidArgument,
      "address must be unix:/absolute/path or tcp://host:port, not: " + std::string(text));
}

Result<Address> default_address() {
  if (const std::string set = variable("VGPU_SERVER"); !set.empty()) return parse_address(set);
  const std::string candidates[] = {user_runtime_path(), kSystemPath, user_tmp_path()};
  for (const std::string& path : candidates) {
    struct stat info {};
    if (!path.empty() && ::stat(path.c_str(), &info) == 0 && S_ISSOCK(info.st_mode)) {
      return Address{Address::Kind::kUnix, path};
    }
  }
  return default_listen_address();
}

Address default_listen_address() {
  if (const std::string path = user_runtime_path(); !path.empty()) {
    return Address{Address::Kind::kUnix, path};
  }
  return Address{Address::Kind::kUnix, ::getuid() == 0 ? kSystemPath : user_tmp_path()};
}

Result<UniqueFd> connect_unix(const std::string& path, int timeout_ms) {
  sockaddr_un address{};
  if (!fill(path, &address)) return too_long(path);
  UniqueFd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return Status::from_errno(errno, "socket");
  for (int left_ms = timeout_ms; connect_retrying(fd.get(), address) != 0; left_ms -= kAgainMs) {
    const int error = errno;
    // As many as there is room for wait for the listener already, and the system tells nobody when
    // there is room again.
    if (error == EAGAIN && left_ms > 0) {
      (void)::poll(nullptr, 0, std::min(left_ms, kAgainMs));
      continue;
    }
    if (error == EAGAIN)
      return Status(StatusCode::kTimedOut, "nobody answers at unix:" + path, error);
    const char* reason = strerrordesc_np(error);
    return Status(
        error == EACCES ? StatusCode::kPermissionDenied : StatusCode::kUnavailable,
        "no server at unix:" + path + ": " + (reason != nullptr ? reason : "unknown error"), error);
  }
  if (::fcntl(fd.get(), F_SETFL, 0) != 0) return Status::from_errno(errno, "fcntl");
  return fd;
}

Result<UniqueFd> listen_unix(const std::string& path, unsigned mode) {
  sockaddr_un address{};
  if (!fill(path, &address)) return too_long(path);
  VGPU_RETURN_IF_ERROR(make_folder_of(path, mode));
  const Result<UniqueFd> probe = connect_unix(path, 0);
  if (probe.ok() || probe.status().code() == StatusCode::kTimedOut)
    return Status(StatusCode::kAlreadyExists, "a server is there already at unix:" + path);
  // A socket whose server has died. Anything else at that path is not ours to remove; files refuse
  // connections as well.
  if (probe.status().os_error() == ECONNREFUSED && is_socket(path)) ::unlink(path.c_str());
  UniqueFd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return Status::from_errno(errno, "socket");
  // The socket gets its name only once it listens: whoever sees it can connect, and the permission
  // is never wider than asked.
  const std::string starting =
      path.substr(0, path.rfind('/') + 1) + ".v" + std::to_string(getpid());
  sockaddr_un first{};
  if (!fill(starting, &first)) return too_long(starting);
  ::unlink(starting.c_str());
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&first), sizeof(first)) != 0) {
    return Status::from_errno(errno, ("bind unix:" + path).c_str());
  }
  const bool ready =
      ::chmod(starting.c_str(), mode) == 0 && ::listen(fd.get(), 128) == 0 &&
      ::renameat2(AT_FDCWD, starting.c_str(), AT_FDCWD, path.c_str(), RENAME_NOREPLACE) == 0;
  if (!ready) {
    const int why = errno;
    ::unlink(starting.c_str());
    return Status::from_errno(why, ("listen unix:" + path).c_str());
  }
  return fd;
}

Result<UniqueFd> accept_unix(int listener) {
  for (;;) {
    const int fd = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    if (fd >= 0) return UniqueFd(fd);
    if (errno == EINTR || errno == ECONNABORTED) continue;
    if (errno == EAGAIN) return Status(StatusCode::kTimedOut, "no guest waits");
    return Status::from_errno(errno, "accept4");
  }
}

}  // namespace vgpu::protocol
