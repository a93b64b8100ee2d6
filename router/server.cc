// Loading private copies of the guest library.
// SPDX-License-Identifier: Apache-2.0
#include "router/server.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>

#include <cerrno>

#include "base/unique_fd.h"

namespace vgpu::router {
namespace {

#ifndef MFD_EXEC
#define MFD_EXEC 0x0010U
#endif

// Somewhere without a name: the loader takes files with the same inode for one library. In memory,
// or where that may not be executed, in a folder.
UniqueFd nameless_file() {
  for (const unsigned flags : {MFD_CLOEXEC | MFD_EXEC, unsigned{MFD_CLOEXEC}}) {
    UniqueFd file(::memfd_create("libcuda.so.1", flags));
    if (file.valid()) return file;
  }
  return UniqueFd(::open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0700));
}

Status copy_file(const std::string& from, int to) {
  const UniqueFd source(::open(from.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat info {};
  if (!source.valid() || ::fstat(source.get(), &info) != 0)
    return Status::from_errno(errno, ("open " + from).c_str());
  for (off_t done = 0; done < info.st_size;) {
    const ssize_t count =
        ::sendfile(to, source.get(), &done, static_cast<size_t>(info.st_size - done));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return Status::from_errno(errno, ("copy " + from).c_str());
  }
  return ok_status();
}

std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

}  // namespace

Status load_copy(const std::string& file, Server* server) {
  const UniqueFd copy = nameless_file();
  if (!copy.valid()) return Status::from_errno(errno, "memfd_create");
  VGPU_RETURN_IF_ERROR(copy_file(file, copy.get()));
  // The loader remembers the name; no other library is ever called like this.
  std::string name = "/proc/self";
  for (uint32_t i = 0; i <= server->number; ++i) name += "/.";
  name += "/fd/" + std::to_string(copy.get());
  void* library = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* reason = ::dlerror();
    return Status(StatusCode::kUnavailable, reason != nullptr ? reason : "dlopen failed");
  }
  for_each_form(server->driver,
                [&](const char* symbol, void** slot) { *slot = ::dlsym(library, symbol); });
  const void* table = nullptr;
  const CUuuid id = server_library_id();
  if (server->driver.cuGetExportTable == nullptr ||
      server->driver.cuGetExportTable(&table, &id) != CUDA_SUCCESS || table == nullptr)
    return Status(StatusCode::kMismatch, file + " is no guest library of this version");
  server->library = static_cast<const ServerLibrary*>(table);
  const std::string folder = folder_of(file);
  const ServerSettings settings = {server->address.c_str(), server->number, folder.c_str()};
  if (server->library->configure(&settings) != CUDA_SUCCESS)
    return Status(StatusCode::kInternal, "the copy for " + server->address + " is not new");
  return ok_status();
}

}  // namespace vgpu::router
