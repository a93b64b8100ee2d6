// Finding a program, and whether anything can be preloaded into it.
// SPDX-License-Identifier: Apache-2.0
#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <array>
#include <cstring>

#include "base/bytes.h"
#include "base/unique_fd.h"
#include "tools/vgpu/run.h"

namespace vgpu::tools {
namespace {

#if defined(__aarch64__)
constexpr Elf64_Half kMachine = EM_AARCH64;
#else
constexpr Elf64_Half kMachine = EM_X86_64;
#endif
constexpr size_t kHeadersMax = 64;  // programs have about a dozen

bool is_program(const std::string& file, bool* denied) {
  struct stat info {};
  if (::stat(file.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return false;
  if (::access(file.c_str(), X_OK) == 0) return true;
  *denied = true;
  return false;
}

// Whether the ELF file asks for a dynamic loader; true when that cannot be told.
bool has_loader(int file, const Elf64_Ehdr& head) {
  std::array<Elf64_Phdr, kHeadersMax> headers{};
  if (head.e_phentsize != sizeof(Elf64_Phdr) || head.e_phnum > kHeadersMax) return true;
  const size_t bytes = head.e_phnum * sizeof(Elf64_Phdr);
  if (::pread(file, headers.data(), bytes, static_cast<off_t>(head.e_phoff)) !=
      static_cast<ssize_t>(bytes)) {
    return true;
  }
  for (size_t i = 0; i < head.e_phnum; ++i) {
    if (headers[i].p_type == PT_INTERP) return true;
  }
  return false;
}

}  // namespace

std::string find_executable(const std::string& command, const std::string& path, bool* denied) {
  if (command.empty()) return "";
  if (command.find('/') != std::string::npos) return is_program(command, denied) ? command : "";
  const std::string folders = path.empty() ? "/usr/local/bin:/usr/bin:/bin" : path;
  for (size_t at = 0; at <= folders.size();) {
    const size_t end = std::min(folders.find(':', at), folders.size());
    const std::string folder = end > at ? folders.substr(at, end - at) : ".";
    if (const std::string file = folder + "/" + command; is_program(file, denied)) return file;
    at = end + 1;
  }
  return "";
}

std::string preload_obstacle(const std::string& file) {
  UniqueFd opened(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat info {};
  if (!opened.valid() || ::fstat(opened.get(), &info) != 0) return "";
  const bool other_user = (info.st_mode & S_ISUID) != 0 && ::geteuid() != info.st_uid;
  const bool other_group = (info.st_mode & S_ISGID) != 0 && ::getegid() != info.st_gid;
  if (other_user || other_group)
    return "is set-user-ID or set-group-ID: the system preloads nothing into such programs";
  if (::geteuid() != 0 && ::fgetxattr(opened.get(), "security.capability", nullptr, 0) > 0)
    return "has capabilities of its own: the system preloads nothing into such programs";
  Elf64_Ehdr head{};
  if (::pread(opened.get(), &head, sizeof(head), 0) != static_cast<ssize_t>(sizeof(head))) {
    return "";
  }
  if (std::memcmp(head.e_ident, ELFMAG, SELFMAG) != 0) return "";
  if (head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_machine != kMachine) {
    return "is built for another kind of machine than the guest library";
  }
  if (!has_loader(opened.get(), head)) {
    return "is statically linked: nothing can be preloaded into it";
  }
  return "";
}

}  // namespace vgpu::tools
