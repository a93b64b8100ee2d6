// Reading with distrust, writing at once.
// SPDX-License-Identifier: Apache-2.0
#include "net/control/small_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>

#include "base/env.h"

namespace vgpu::net {
namespace {

constexpr char kSystemFolder[] = "/etc/vgpu/";

std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

Status make_folder(const std::string& folder) {
  if (::access(folder.c_str(), F_OK) == 0) return ok_status();
  if (const std::string parent = folder_of(folder); parent != folder) {
    VGPU_RETURN_IF_ERROR(make_folder(parent));
  }
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) {
    return Status::from_errno(errno, ("mkdir " + folder).c_str());
  }
  return ok_status();
}

Status check_owner(const std::string& path, const struct stat& info, Trust trust) {
  const auto bad = [&](const std::string& why) {
    return Status(StatusCode::kPermissionDenied, path + " " + why);
  };
  if (!S_ISREG(info.st_mode)) return bad("is not a file");
  if (info.st_uid != ::geteuid() && info.st_uid != 0) return bad("belongs to somebody else");
  if (trust == Trust::kSecret && (info.st_mode & 077) != 0) {
    return bad("can be read by others: chmod 600 it");
  }
  if ((info.st_mode & 022) != 0) return bad("can be written by others: chmod go-w it");
  return ok_status();
}

Result<std::string> read_all(int fd, const std::string& path) {
  std::string text;
  char part[4096];
  for (;;) {
    const ssize_t got = ::read(fd, part, sizeof(part));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Status::from_errno(errno, path.c_str());
    if (got == 0) return text;
    text.append(part, static_cast<size_t>(got));
    if (text.size() > kFileBytesMax) {
      return Status(StatusCode::kResourceExhausted, path + " is too long");
    }
  }
}

Status write_all(int fd, std::string_view text, const std::string& path) {
  while (!text.empty()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return Status::from_errno(errno, path.c_str());
    text.remove_prefix(static_cast<size_t>(written));
  }
  return ::fsync(fd) == 0 ? ok_status() : Status::from_errno(errno, path.c_str());
}

std::string user_folder() {
  if (const auto set = env_text("XDG_CONFIG_HOME"); set && set->front() == '/')
    return std::string(*set) + "/vgpu/";
  if (const auto home = env_text("HOME"); home && home->front() == '/')
    return std::string(*home) + "/.config/vgpu/";
  return "";
}

}  // namespace

Result<std::string> read_small_file(const std::string& path, Trust trust, struct stat* info) {
  // A pipe or a device would wait.
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
  if (!fd.valid()) {
    const int error = errno;
    return Status(error == ENOENT || error == ENOTDIR ? StatusCode::kNotFound
                  : error == EACCES                   ? StatusCode::kPermissionDenied
                                                      : StatusCode::kSystem,
                  path + (error == EACCES ? " cannot be read by this user" : " cannot be opened"),
                  error);
  }
  struct stat found {};
  if (::fstat(fd.get(), &found) != 0) return Status::from_errno(errno, path.c_str());
  if (info != nullptr) *info = found;
  VGPU_RETURN_IF_ERROR(check_owner(path, found, trust));
  return read_all(fd.get(), path);
}

Status write_small_file(const std::string& path, std::string_view text, mode_t mode, bool replace) {
  VGPU_RETURN_IF_ERROR(make_folder(folder_of(path)));
  const std::string part = path + ".new" + std::to_string(::getpid());
  (void)::unlink(part.c_str());
  const UniqueFd fd(::open(part.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!fd.valid()) return Status::from_errno(errno, part.c_str());
  Status status = write_all(fd.get(), text, part);
  if (status.ok() && ::fchmod(fd.get(), mode) != 0) status = Status::from_errno(errno, "fchmod");
  if (status.ok()) {
    const int done =
        replace ? ::rename(part.c_str(), path.c_str()) : ::link(part.c_str(), path.c_str());
    if (done != 0) {
      status = errno == EEXIST ? Status(StatusCode::kAlreadyExists, path + " is there already")
                               : Status::from_errno(errno, path.c_str());
    }
  }
  (void)::unlink(part.c_str());
  return status;
}

Result<UniqueFd> lock_folder_of(const std::string& path) {
  const std::string folder = folder_of(path);
  VGPU_RETURN_IF_ERROR(make_folder(folder));
  UniqueFd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid() || ::flock(fd.get(), LOCK_EX) != 0) {
    return Status::from_errno(errno, folder.c_str());
  }
  return fd;
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line == "#" || line.starts_with("# ")) line = {};
    lines.push_back(line);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words;
  for (size_t at = 0; at < line.size();) {
    const size_t begin = line.find_first_not_of(" \t", at);
    if (begin == std::string_view::npos) break;
    const size_t end = std::min(line.find_first_of(" \t", begin), line.size());
    words.push_back(line.substr(begin, end - begin));
    at = end;
  }
  return words;
}

std::vector<std::string> config_places(const std::string& name) {
  std::vector<std::string> places;
  if (const std::string folder = user_folder(); !folder.empty()) places.push_back(folder + name);
  places.push_back(kSystemFolder + name);
  return places;
}

std::string find_config(const std::string& name, bool system) {
  const std::vector<std::string> places = config_places(name);
  for (const std::string& path : places) {
    if (::access(path.c_str(), F_OK) == 0) return path;
  }
  return system ? places.back() : places.front();
}

}  // namespace vgpu::net
