// Libraries at each server: loaded there when something of theirs is first needed there.
// SPDX-License-Identifier: Apache-2.0
#include "router/libraries.h"

#include "router/servers.h"

namespace vgpu::router {

Libraries& Libraries::instance() {
  static auto* const all = new Libraries;  // NOLINT: calls come at exit
  return *all;
}

CUlibrary Libraries::add(std::unique_ptr<SharedLibrary> library) {
  std::lock_guard lock(mutex_);
  return reinterpret_cast<CUlibrary>(libraries_.insert(std::move(library)));
}

SharedLibrary* Libraries::find(CUlibrary handle) const {
  const auto* found = libraries_.find(reinterpret_cast<uint64_t>(handle));
  return found != nullptr ? found->get() : nullptr;
}

CUresult Libraries::unload(CUlibrary handle) {
  std::lock_guard lock(mutex_);
  SharedLibrary* library = find(handle);
  if (library == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  CUresult result = CUDA_SUCCESS;
  for (auto& [name, kernel] : library->kernels) {
    for (auto& own : kernel->at) shared_.erase(own.load(std::memory_order_relaxed));
    kernels_.remove(reinterpret_cast<uint64_t>(kernel->handle));
  }
  for (uint32_t i = 0; i < kServersMax; ++i) {
    if (library->at[i] == nullptr) continue;
    const CUresult r = Servers::attached()->at(i)->driver.cuLibraryUnload(library->at[i]);
    if (result == CUDA_SUCCESS) result = r;
  }
  libraries_.remove(reinterpret_cast<uint64_t>(handle));
  return result;
}

CUresult Libraries::load(Server& server, SharedLibrary* library, CUlibrary* own) {
  const ImageSource& source = library->source;
  if (source.data != nullptr)
    return server.driver.cuLibraryLoadData(own, source.data, nullptr, nullptr, 0, nullptr, nullptr,
                                           0);
  if (!source.path.empty())
    return server.driver.cuLibraryLoadFromFile(own, source.path.c_str(), nullptr, nullptr, 0,
                                               nullptr, nullptr, 0);
  const CUresult failure = library->failure[server.number];
  return failure != CUDA_SUCCESS ? failure : CUDA_ERROR_INVALID_HANDLE;
}

CUresult Libraries::at(Server& server, SharedLibrary* library, CUlibrary* own) {
  std::lock_guard lock(mutex_);
  CUlibrary& there = library->at[server.number];
  if (there == nullptr) {
    if (CUresult r = load(server, library, &there); r != CUDA_SUCCESS) return r;
  }
  *own = there;
  return CUDA_SUCCESS;
}

CUresult Libraries::kernel(Server& server, SharedLibrary* library, CUkernel own, CUkernel* out) {
  std::lock_guard lock(mutex_);
  const char* name = nullptr;
  if (CUresult r = server.driver.cuKernelGetName(&name, own); r != CUDA_SUCCESS) return r;
  std::unique_ptr<SharedKernel>& kernel = library->kernels[name];
  if (kernel == nullptr) {
    auto fresh = std::make_unique<SharedKernel>();
    fresh->library = library;
    fresh->name = name;
    const uint64_t id = kernels_.insert(fresh.get());
    if (id == 0) return CUDA_ERROR_OUT_OF_MEMORY;
    fresh->handle = reinterpret_cast<CUkernel>(id);
    kernel = std::move(fresh);
  }
  const auto there = reinterpret_cast<uint64_t>(own);
  // release: partner is the acquire in own_kernel.
  kernel->at[server.number].store(there, std::memory_order_release);
  shared_[there] = kernel->handle;
  *out = kernel->handle;
  return CUDA_SUCCESS;
}

CUresult Libraries::at(Server& server, SharedKernel* kernel, CUfunction* own) {
  std::lock_guard lock(mutex_);
  CUlibrary library = nullptr;
  if (CUresult r = at(server, kernel->library, &library); r != CUDA_SUCCESS) return r;
  CUkernel found = nullptr, same = nullptr;
  CUresult r = server.driver.cuLibraryGetKernel(&found, library, kernel->name.c_str());
  if (r == CUDA_SUCCESS) r = this->kernel(server, kernel->library, found, &same);
  if (r == CUDA_SUCCESS) *own = reinterpret_cast<CUfunction>(found);
  return r;
}

CUkernel Libraries::shared(CUkernel own) {
  std::lock_guard lock(mutex_);
  const auto found = shared_.find(reinterpret_cast<uint64_t>(own));
  return found != shared_.end() ? found->second : own;
}

CUlibrary Libraries::handle_of(const SharedLibrary* library) {
  std::lock_guard lock(mutex_);
  uint64_t handle = 0;
  libraries_.for_each([&](uint64_t id, const std::unique_ptr<SharedLibrary>& each) {
    if (each.get() == library) handle = id;
  });
  return reinterpret_cast<CUlibrary>(handle);
}

CUresult own_library(Server& server, CUlibrary* library) {
  SharedLibrary* found = Libraries::instance().find(*library);
  return found == nullptr ? CUDA_SUCCESS : Libraries::instance().at(server, found, library);
}

}  // namespace vgpu::router
