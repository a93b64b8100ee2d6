// Reading tokens, once the file is known to be kept from others.
// SPDX-License-Identifier: Apache-2.0
#include "server/token_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <sstream>

#include "base/unique_fd.h"
#include "server/policy.h"

namespace vgpu::server {
namespace {

Status refused(const std::string& path, const std::string& why) {
  return Status(StatusCode::kInvalidArgument, path + ": " + why);
}

Result<std::string> read_guarded(const std::string& path) {
  // Looked at is what is then read: the name may mean another file by then.
  const UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.valid()) return Status::from_errno(errno, path.c_str());
  struct stat facts {};
  if (fstat(file.get(), &facts) != 0) return Status::from_errno(errno, path.c_str());
  if (!S_ISREG(facts.st_mode)) return refused(path, "not a plain file");
  if (facts.st_uid != 0 && facts.st_uid != geteuid())
    return refused(path, "belongs to user " + std::to_string(facts.st_uid) +
                             ", not to root or the server's user");
  if ((facts.st_mode & 077) != 0) return refused(path, "others may open it; give it mode 0600");
  if (static_cast<uint64_t>(facts.st_size) > kTokenFileBytesMax) return refused(path, "too long");
  std::string text(static_cast<size_t>(facts.st_size), '\0');
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t got = read(file.get(), text.data() + done, text.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Status::from_errno(errno, path.c_str());
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  text.resize(done);
  return text;
}

bool token_ok(const std::string& token) {
  return token.size() >= kTokenBytesMin && token.size() <= kTokenBytesMax &&
         std::all_of(token.begin(), token.end(), [](char c) { return c > 0x20 && c < 0x7f; });
}

}  // namespace

Result<std::map<std::string, std::string>> read_token_file(const std::string& path) {
  const Result<std::string> text = read_guarded(path);
  if (!text.ok()) return text.status();
  std::map<std::string, std::string> tokens;
  std::istringstream lines(*text);
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    const std::string at = path + ":" + std::to_string(number);
    std::istringstream words(line);
    std::string name, token, more;
    if (!(words >> name) || name.front() == '#') continue;
    if (!(words >> token) || words >> more)
      return refused(at, "a line is the name of a tenant and its token");
    if (!policy_name_ok(name)) return refused(at, "not a name of a tenant");
    if (!token_ok(token))
      return refused(at, "a token has " + std::to_string(kTokenBytesMin) + " to " +
                             std::to_string(kTokenBytesMax) + " printable characters");
    if (!tokens.emplace(name, token).second)
      return refused(at, "tenant '" + name + "' has a token already");
  }
  return tokens;
}

}  // namespace vgpu::server
