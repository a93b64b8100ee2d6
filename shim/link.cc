// The driver's linker: cuLink*. One input needs no linking and is handed on as it is; that it is
// sound is found out by loading it for a moment.
// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>
#include <cudaProfiler.h>

#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "api/cudart/image.h"
#include "base/log.h"
#include "driver_functions.h"
#include "shim/module_table.h"

namespace vgpu::driver {

using shim::Context;
using shim::enter;
using shim::handle_of;
using shim::id_of;
using shim::load_image;
using shim::LoadOptions;
using shim::Module;
using shim::read_image_file;
using shim::read_options;
using shim::Session;
using shim::unload;

namespace {

struct Link {
  LoadOptions options;  // logs go where the creator said, and that stays valid until the end
  std::string image;    // of the one input; what cuLinkComplete gives out
};

// Links in progress. Thread-safe; never destroyed.
class Links {
 public:
  static Links& instance() {
    static Links* const links = new Links;
    return *links;
  }
  uint64_t insert(const LoadOptions& options) {
    const std::lock_guard lock(mutex_);
    links_[++last_] = std::make_shared<Link>(Link{options, std::string()});
    return last_;
  }
  std::shared_ptr<Link> find(CUlinkState handle) {
    const std::lock_guard lock(mutex_);
    const auto found = links_.find(id_of(handle));
    return found == links_.end() ? nullptr : found->second;
  }
  bool remove(CUlinkState handle) {
    const std::lock_guard lock(mutex_);
    return links_.erase(id_of(handle)) != 0;
  }

 private:
  std::mutex mutex_;
  uint64_t last_ = 0x1000;  // handles are told apart from small numbers
  std::map<uint64_t, std::shared_ptr<Link>> links_;
};

bool options_valid(unsigned count, const CUjit_option* options, void* const* values) {
  if (count != 0 && (options == nullptr || values == nullptr)) return false;
  for (unsigned i = 0; i < count; ++i) {
    if (options[i] < 0 || options[i] >= CU_JIT_NUM_OPTIONS) return false;
  }
  return true;
}

// The input as an image that can be loaded.
CUresult image_of(CUjitInputType type, const char* data, size_t bytes, std::string* image) {
  if (type == CU_JIT_INPUT_PTX) {
    image->assign(data, strnlen(data, bytes));
    image->push_back('\0');
    return CUDA_SUCCESS;
  }
  if (type != CU_JIT_INPUT_CUBIN && type != CU_JIT_INPUT_FATBINARY) {
    log_line(LogLevel::kWarn, "cuLinkAddData: guests link PTX, cubins and fat binaries only");
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  std::string why;
  if (cudart::check_image(data, bytes, &why) && cudart::flatten_image(data, image, &why))
    return CUDA_SUCCESS;
  log_line(LogLevel::kError, "cuLinkAddData: %s", why.c_str());
  return CUDA_ERROR_INVALID_IMAGE;
}

CUresult add(Session& session, Context* context, Link* link, CUjitInputType type, const char* data,
             size_t bytes) {
  if (!link->image.empty()) {
    log_line(LogLevel::kWarn, "cuLinkAddData: guests link one input only");
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  std::string image;
  if (const CUresult r = image_of(type, data, bytes, &image); r != CUDA_SUCCESS) return r;
  uint64_t id = 0;
  const CUresult result = load_image(session, context, image.data(), link->options, &id);
  if (result == CUDA_ERROR_INVALID_IMAGE && type == CU_JIT_INPUT_PTX) return CUDA_ERROR_INVALID_PTX;
  if (result != CUDA_SUCCESS) return result;
  unload(session, session.modules.find(id));
  link->image = std::move(image);
  return CUDA_SUCCESS;
}

CUresult look_up(CUlinkState handle, Session** session, Context** context,
                 std::shared_ptr<Link>* link) {
  if (const CUresult r = enter(session, context); r != CUDA_SUCCESS) return r;
  *link = Links::instance().find(handle);
  return *link == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
}

}  // namespace

CUresult cuLinkCreate_v2(unsigned int count, CUjit_option* options, void** values,
                         CUlinkState* out) {
  Session* session;
  Context* context;
  if (const CUresult r = enter(&session, &context); r != CUDA_SUCCESS) return r;
  if (out == nullptr || !options_valid(count, options, values)) return CUDA_ERROR_INVALID_VALUE;
  *out = handle_of<CUlinkState>(Links::instance().insert(read_options(count, options, values)));
  return CUDA_SUCCESS;
}

CUresult cuLinkAddData_v2(CUlinkState handle, CUjitInputType type, void* data, size_t bytes,
                          const char*, unsigned int count, CUjit_option* options, void** values) {
  Session* session;
  Context* context;
  std::shared_ptr<Link> link;
  if (const CUresult r = look_up(handle, &session, &context, &link); r != CUDA_SUCCESS) return r;
  if (data == nullptr || bytes == 0 || !options_valid(count, options, values))
    return CUDA_ERROR_INVALID_VALUE;
  return add(*session, context, link.get(), type, static_cast<const char*>(data), bytes);
}

CUresult cuLinkAddFile_v2(CUlinkState handle, CUjitInputType type, const char* path,
                          unsigned int count, CUjit_option* options, void** values) {
  Session* session;
  Context* context;
  std::shared_ptr<Link> link;
  if (const CUresult r = look_up(handle, &session, &context, &link); r != CUDA_SUCCESS) return r;
  if (path == nullptr || !options_valid(count, options, values)) return CUDA_ERROR_INVALID_VALUE;
  std::string bytes;
  if (const CUresult r = read_image_file(path, &bytes); r != CUDA_SUCCESS) return r;
  return add(*session, context, link.get(), type, bytes.data(), bytes.size());
}

CUresult cuLinkComplete(CUlinkState handle, void** image, size_t* bytes) {
  Session* session;
  Context* context;
  std::shared_ptr<Link> link;
  if (const CUresult r = look_up(handle, &session, &context, &link); r != CUDA_SUCCESS) return r;
  if (image == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (link->image.empty()) return CUDA_ERROR_UNKNOWN;
  *image = link->image.data();
  if (bytes != nullptr) *bytes = link->image.size();
  return CUDA_SUCCESS;
}

CUresult cuLinkDestroy(CUlinkState handle) {
  Session* session;
  if (const CUresult r = enter(&session); r != CUDA_SUCCESS) return r;
  return Links::instance().remove(handle) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

}  // namespace vgpu::driver
