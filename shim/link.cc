// The driver's linker: cuLink*. The worker's driver links; its image comes back.
// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>
#include <cudaProfiler.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>

#include "api/cudart/image.h"
#include "base/log.h"
#include "driver_functions.h"
#include "shim/module_table.h"
#include "shim/staging.h"

namespace vgpu::driver {

using shim::Context;
using shim::enter;
using shim::handle_of;
using shim::id_of;
using shim::LoadOptions;
using shim::put_log;
using shim::read_image_file;
using shim::read_options;
using shim::Session;
using shim::stage_image;

namespace {

constexpr uint64_t kLinkTag = 12;              // beside those of shim/objects.h
constexpr uint64_t kLogBytesMax = 64 * 1024;   // of each log
constexpr uint64_t kPieceBytes = 256 * 1024;   // of an image on its way back
constexpr uint64_t kImageBytesMax = 1u << 30;  // what one upload, and one image, may have

struct Link {
  Link(Session* owner, Context* made_in, const LoadOptions& given)
      : session(owner), context(made_in), life(made_in->unique_id), options(given) {}

  bool alive() const {
    return context->unique_id == life && context->active.load(std::memory_order_acquire);
  }

  Session* const session;
  Context* const context;
  const uint64_t life;        // of the context
  const LoadOptions options;  // logs go where the creator said, and that stays valid until the end
  std::mutex mutex;           // one call at a time
  std::string image;          // what cuLinkComplete has given out
};

// Links in progress. Thread-safe; never destroyed.
class Links {
 public:
  static Links& instance() {
    static Links* const links = new Links;
    return *links;
  }
  uint64_t insert(std::shared_ptr<Link> link) {
    const std::lock_guard lock(mutex_);
    return links_.insert(std::move(link));
  }
  std::shared_ptr<Link> find(CUlinkState handle) {
    const std::lock_guard lock(mutex_);
    const std::shared_ptr<Link>* found = links_.find(id_of(handle));
    return found == nullptr ? nullptr : *found;
  }
  bool full() {
    const std::lock_guard lock(mutex_);
    return links_.size() >= protocol::kLinksMax;
  }
  // After the worker was told, so that a new link may have the name.
  void remove(CUlinkState handle) {
    const std::lock_guard lock(mutex_);
    links_.remove(id_of(handle));
  }

 private:
  std::mutex mutex_;
  SlotMap<std::shared_ptr<Link>, kLinkTag> links_;
};

bool options_valid(unsigned count, const CUjit_option* options, void* const* values) {
  if (count != 0 && (options == nullptr || values == nullptr)) return false;
  for (unsigned i = 0; i < count; ++i) {
    if (options[i] < 0 || options[i] >= CU_JIT_NUM_OPTIONS) return false;
  }
  return true;
}

// The logs of an answer, into the program's buffers.
void show_logs(const LoadOptions& options, const std::byte* room, uint64_t info, uint64_t error) {
  if (info + error > 2 * kLogBytesMax) return;
  const auto* text = reinterpret_cast<const char*>(room);
  put_log({text, info}, options.info_log, options.info_bytes, options.info_filled);
  put_log({text + info, error}, options.error_log, options.error_bytes, options.error_filled);
}

// Asks the worker with room for both logs, which are shown when there is something to see.
template <typename Args, typename Answer>
CUresult ask(Link& link, Op op, Args& args, Answer* answer, bool completes,
             std::span<const std::byte> blob = {}) {
  Session& session = *link.session;
  const protocol::Staging::Piece piece = session.channel().allocate_down(2 * kLogBytesMax, true);
  if (!piece.ok()) return session.lost();
  args.slab_offset = piece.offset;
  args.slab_bytes = 2 * kLogBytesMax;
  const CUresult result = session.ask(link.context, op, args, answer, blob);
  if (completes || result != CUDA_SUCCESS) {
    show_logs(link.options, session.channel().down_slab().data() + piece.offset, answer->info_bytes,
              answer->error_bytes);
  }
  session.channel().release_down(piece);
  return result;
}

// What the worker, which takes damaged images for an attack, would not have.
CUresult check_input(CUjitInputType type, const char* data, size_t bytes) {
  if (type >= CU_JIT_NUM_INPUT_TYPES) return CUDA_ERROR_INVALID_VALUE;
  if (bytes > kImageBytesMax) return CUDA_ERROR_OUT_OF_MEMORY;
  if (type != CU_JIT_INPUT_CUBIN && type != CU_JIT_INPUT_FATBINARY) return CUDA_SUCCESS;
  std::string why;
  if (cudart::check_image(data, bytes, &why)) return CUDA_SUCCESS;
  log_line(LogLevel::kError, "cuLinkAddData: %s", why.c_str());
  return CUDA_ERROR_INVALID_IMAGE;
}

CUresult add(Link& link, uint64_t id, CUjitInputType type, std::string_view data,
             std::string_view name) {
  if (const CUresult r = check_input(type, data.data(), data.size()); r != CUDA_SUCCESS) return r;
  Session& session = *link.session;
  wire::LinkAddArgs args;
  args.link = id;
  args.type = static_cast<uint32_t>(type);
  args.upload = session.next_upload.fetch_add(1, std::memory_order_relaxed);
  if (CUresult r = stage_image(session, link.context, args.upload, data.data(), data.size());
      r != CUDA_SUCCESS) {
    return r;
  }
  wire::LinkAddReply answer;
  name = name.substr(0, protocol::kNameBytesMax);
  return ask(link, Op::kLinkAdd, args, &answer, false, std::as_bytes(std::span(name)));
}

CUresult fetch(Link& link, uint64_t id, uint64_t bytes) {
  if (bytes > kImageBytesMax) return CUDA_ERROR_UNKNOWN;
  Session& session = *link.session;
  std::string image(bytes, '\0');
  const protocol::Staging::Piece piece = session.channel().allocate_down(kPieceBytes, true);
  if (!piece.ok()) return session.lost();
  wire::LinkFetchArgs args;
  args.link = id;
  args.slab_offset = piece.offset;
  args.slab_bytes = kPieceBytes;
  CUresult result = CUDA_SUCCESS;
  while (args.offset < bytes && result == CUDA_SUCCESS) {
    wire::LinkFetchReply answer;
    result = session.ask(link.context, Op::kLinkFetch, args, &answer);
    if (result != CUDA_SUCCESS) break;
    const bool sane =
        answer.bytes > 0 && answer.bytes <= kPieceBytes && answer.bytes <= bytes - args.offset;
    if (!sane) result = CUDA_ERROR_UNKNOWN;
    if (sane) {
      std::memcpy(image.data() + args.offset, session.channel().down_slab().data() + piece.offset,
                  answer.bytes);
      args.offset += answer.bytes;
    }
  }
  session.channel().release_down(piece);
  if (result == CUDA_SUCCESS) link.image = std::move(image);
  return result;
}

// Calls `use` with the link of a handle, alone with it.
template <typename Use>
CUresult with_link(CUlinkState handle, Use use) {
  Session* session;
  Context* context;
  if (const CUresult r = enter(&session, &context); r != CUDA_SUCCESS) return r;
  const std::shared_ptr<Link> link = Links::instance().find(handle);
  if (link == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const std::lock_guard alone(link->mutex);
  return link->alive() ? use(*link) : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

}  // namespace

CUresult cuLinkCreate_v2(unsigned int count, CUjit_option* options, void** values,
                         CUlinkState* out) {
  Session* session;
  Context* context;
  if (const CUresult r = enter(&session, &context); r != CUDA_SUCCESS) return r;
  if (out == nullptr || !options_valid(count, options, values)) return CUDA_ERROR_INVALID_VALUE;
  const LoadOptions given = read_options(count, options, values);
  if (Links::instance().full()) return CUDA_ERROR_OUT_OF_MEMORY;
  wire::LinkCreateArgs args;
  args.link = Links::instance().insert(std::make_shared<Link>(session, context, given));
  if (args.link == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  args.log_bytes = static_cast<uint32_t>(
      std::min<uint64_t>(kLogBytesMax, std::max(given.info_bytes, given.error_bytes)));
  args.max_registers = given.max_registers;
  args.optimization_level = given.optimization_level;
  if (session->post(context, Op::kLinkCreate, args) == 0) return session->lost();
  *out = handle_of<CUlinkState>(args.link);
  return CUDA_SUCCESS;
}

CUresult cuLinkAddData_v2(CUlinkState handle, CUjitInputType type, void* data, size_t bytes,
                          const char* name, unsigned int count, CUjit_option* options,
                          void** values) {
  return with_link(handle, [&](Link& link) {
    if (data == nullptr || bytes == 0 || !options_valid(count, options, values))
      return CUDA_ERROR_INVALID_VALUE;
    return add(link, id_of(handle), type, {static_cast<const char*>(data), bytes},
               name == nullptr ? "" : name);
  });
}

CUresult cuLinkAddFile_v2(CUlinkState handle, CUjitInputType type, const char* path,
                          unsigned int count, CUjit_option* options, void** values) {
  return with_link(handle, [&](Link& link) {
    if (path == nullptr || !options_valid(count, options, values)) return CUDA_ERROR_INVALID_VALUE;
    std::string bytes;
    if (const CUresult r = read_image_file(path, &bytes); r != CUDA_SUCCESS) return r;
    return bytes.empty() ? CUDA_ERROR_INVALID_IMAGE : add(link, id_of(handle), type, bytes, path);
  });
}

CUresult cuLinkComplete(CUlinkState handle, void** image, size_t* bytes) {
  return with_link(handle, [&](Link& link) {
    if (image == nullptr) return CUDA_ERROR_INVALID_VALUE;
    wire::LinkCompleteArgs args;
    args.link = id_of(handle);
    wire::LinkCompleteReply answer;
    CUresult r = ask(link, Op::kLinkComplete, args, &answer, true);
    if (r == CUDA_SUCCESS) r = fetch(link, args.link, answer.image_bytes);
    if (r != CUDA_SUCCESS) return r;
    *image = link.image.data();
    if (bytes != nullptr) *bytes = link.image.size();
    return CUDA_SUCCESS;
  });
}

CUresult cuLinkDestroy(CUlinkState handle) {
  Session* session;
  if (const CUresult r = enter(&session); r != CUDA_SUCCESS) return r;
  const std::shared_ptr<Link> link = Links::instance().find(handle);
  if (link == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const std::lock_guard alone(link->mutex);
  if (Links::instance().find(handle) != link)
    return CUDA_ERROR_INVALID_HANDLE;  // by another thread
  if (link->alive()) {
    wire::LinkDestroyArgs args;
    args.link = id_of(handle);
    (void)session->post(link->context, Op::kLinkDestroy, args);
  }
  Links::instance().remove(handle);
  return CUDA_SUCCESS;
}

}  // namespace vgpu::driver
