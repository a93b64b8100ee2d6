// Loading images and finding functions.
// SPDX-License-Identifier: Apache-2.0
#include "shim/module_table.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>
#include <mutex>

#include "api/cudart/image.h"
#include "base/log.h"
#include "shim/staging.h"

namespace vgpu::shim {
namespace {

constexpr uint64_t kLogBytesMax = 64 * 1024;
constexpr uint64_t kLayoutRoom =
    256 * 1024;  // asked for at first; larger layouts are fetched in pieces
constexpr uint64_t kLayoutBytesMax = uint64_t{256} << 20;

// The rest of a layout that did not fit the room of the first answer.
CUresult fetch_layout(Session& session, Context* context, uint64_t module, uint64_t bytes,
                      std::vector<uint8_t>* layout) {
  if (bytes > kLayoutBytesMax) return CUDA_ERROR_UNKNOWN;
  layout->resize(bytes);
  for (uint64_t done = 0; done < bytes;) {
    const uint64_t step = std::min(kLayoutRoom, bytes - done);
    const protocol::Staging::Piece piece = session.channel().allocate_down(step, true);
    if (!piece.ok()) return session.lost();
    wire::LayoutFetchArgs args;
    args.module = module;
    args.offset = done;
    args.slab_offset = piece.offset;
    args.slab_bytes = step;
    wire::LayoutFetchReply answer;
    const CUresult result = session.ask(context, Op::kLayoutFetch, args, &answer);
    const bool sane = answer.bytes > 0 && answer.bytes <= step;
    if (result == CUDA_SUCCESS && sane) {
      std::memcpy(layout->data() + done, session.channel().down_slab().data() + piece.offset,
                  answer.bytes);
    }
    session.channel().release_down(piece);
    if (result != CUDA_SUCCESS || !sane)
      return result != CUDA_SUCCESS ? result : CUDA_ERROR_UNKNOWN;
    done += answer.bytes;
  }
  return CUDA_SUCCESS;
}

CUresult load_uploaded(Session& session, Context* context, wire::ModuleLoadArgs& args,
                       const LoadOptions& options, std::vector<uint8_t>* layout,
                       uint64_t* variable_bytes) {
  const protocol::Staging::Piece piece = session.channel().allocate_down(kLayoutRoom, true);
  if (!piece.ok()) return session.lost();
  args.slab_offset = piece.offset;
  args.slab_bytes = kLayoutRoom;
  args.log_bytes = static_cast<uint32_t>(
      std::min<uint64_t>(kLogBytesMax, std::max(options.info_bytes, options.error_bytes)));
  if (args.log_bytes == 0) args.log_bytes = 1024;
  args.max_registers = options.max_registers;
  args.optimization_level = options.optimization_level;
  wire::ModuleLoadReply answer;
  const CUresult result = session.ask(context, Op::kModuleLoad, args, &answer);
  *variable_bytes = answer.variable_bytes;
  if (answer.prints != 0) session.output().code_prints();
  const std::byte* room = session.channel().down_slab().data() + piece.offset;
  const bool whole = answer.layout_bytes <= kLayoutRoom;
  if (result == CUDA_SUCCESS && whole) {
    layout->resize(answer.layout_bytes);
    std::memcpy(layout->data(), room, answer.layout_bytes);
  }
  std::string log;
  const uint64_t log_at = (answer.layout_bytes + 7) & ~uint64_t{7};
  if (log_at <= kLayoutRoom && answer.log_bytes <= kLayoutRoom - log_at) {
    log.assign(reinterpret_cast<const char*>(room) + log_at, answer.log_bytes);
  }
  session.channel().release_down(piece);
  put_log(result == CUDA_SUCCESS ? log : "", options.info_log, options.info_bytes,
          options.info_filled);
  put_log(result == CUDA_SUCCESS ? "" : log, options.error_log, options.error_bytes,
          options.error_filled);
  if (result != CUDA_SUCCESS && !log.empty())
    log_line(LogLevel::kError, "image refused: %s", log.c_str());
  if (result != CUDA_SUCCESS || whole) return result;
  const CUresult fetched = fetch_layout(session, context, args.module, answer.layout_bytes, layout);
  if (fetched != CUDA_SUCCESS) layout->clear();  // loaded, but not to be used
  return CUDA_SUCCESS;
}

uint64_t insert_module(Session& session, Context* context) {
  std::unique_lock lock(session.objects);
  if (session.full(protocol::GuestLimit::kModules,
                   session.modules.size() + session.libraries.size()))
    return 0;
  const uint64_t id = context != nullptr ? session.modules.insert() : session.libraries.insert();
  if (id == 0) return 0;
  Module* module = context != nullptr ? session.modules.find(id) : session.libraries.find(id);
  module->id = id;
  module->context = context;
  return id;
}

void remove_module(Session& session, uint64_t id) {
  std::unique_lock lock(session.objects);
  if (!session.modules.remove(id)) session.libraries.remove(id);
}

}  // namespace

void put_log(std::string_view text, char* log, size_t bytes, void** filled) {
  if (log == nullptr || bytes == 0) return;
  const size_t length = std::min(text.size(), bytes - 1);
  std::memcpy(log, text.data(), length);
  log[length] = '\0';
  *filled = reinterpret_cast<void*>(static_cast<uintptr_t>(text.empty() ? 0 : length + 1));
}

LoadOptions read_options(unsigned count, const CUjit_option* options, void** values) {
  LoadOptions read;
  for (unsigned i = 0; options != nullptr && values != nullptr && i < count; ++i) {
    const auto number = reinterpret_cast<uintptr_t>(values[i]);
    switch (options[i]) {
      case CU_JIT_MAX_REGISTERS:
        read.max_registers = static_cast<uint32_t>(number);
        break;
      case CU_JIT_OPTIMIZATION_LEVEL:
        read.optimization_level = static_cast<int32_t>(number);
        break;
      case CU_JIT_INFO_LOG_BUFFER:
        read.info_log = static_cast<char*>(values[i]);
        break;
      case CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES:
        read.info_bytes = static_cast<uint32_t>(number);
        read.info_filled = &values[i];
        break;
      case CU_JIT_ERROR_LOG_BUFFER:
        read.error_log = static_cast<char*>(values[i]);
        break;
      case CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES:
        read.error_bytes = static_cast<uint32_t>(number);
        read.error_filled = &values[i];
        break;
      default:
        break;
    }
  }
  return read;
}

CUresult context_for(Session& session, CUdevice device, Context** context) {
  *context = current_context();
  if (*context != nullptr && (device == kAnyDevice || (*context)->device == device) &&
      (*context)->active.load(std::memory_order_acquire)) {
    return CUDA_SUCCESS;
  }
  *context = session.contexts().primary(device == kAnyDevice ? 0 : device);
  return *context == nullptr ? CUDA_ERROR_INVALID_DEVICE : session.make_ready(*context);
}

CUresult load_image(Session& session, Context* context, const void* image,
                    const LoadOptions& options, uint64_t* id) {
  if (image == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::string blob, why;
  std::string_view bytes;
  if (!cudart::view_image(image, &blob, &bytes, &why)) {
    log_line(LogLevel::kError, "not an image that can be loaded: %s", why.c_str());
    return CUDA_ERROR_INVALID_IMAGE;
  }
  // A library belongs to no context, but a driver loads in one.
  Context* where = context;
  if (where == nullptr) {
    if (CUresult r = context_for(session, kAnyDevice, &where); r != CUDA_SUCCESS) return r;
  }
  const uint64_t life = where->unique_id;
  const uint64_t handle = insert_module(session, context);
  if (handle == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  wire::ModuleLoadArgs args;
  args.module = handle;
  args.kind = context == nullptr ? 1 : 0;
  std::vector<uint8_t> layout;
  uint64_t variable_bytes = 0;
  const auto load = [&] {
    args.upload = session.next_upload.fetch_add(1, std::memory_order_relaxed);
    const CUresult r = stage_image(session, where, args.upload, bytes.data(), bytes.size());
    if (r != CUDA_SUCCESS) return r;
    return load_uploaded(session, where, args, options, &layout, &variable_bytes);
  };
  CUresult result = load();
  if (result == CUDA_ERROR_OUT_OF_MEMORY && session.reclaim(where->device, variable_bytes))
    result = load();
  Module* module =
      context != nullptr ? session.modules.find(handle) : session.libraries.find(handle);
  if (result == CUDA_SUCCESS && !read_layout(layout, module)) {
    unload(session, module);  // the worker has it
    return CUDA_ERROR_UNKNOWN;
  }
  if (result != CUDA_SUCCESS) {
    remove_module(session, handle);
    return result;
  }
  module->home = where;
  module->home_life = life;
  if (context == nullptr) {
    for (Kernel& kernel : module->kernels) kernel.further = std::make_shared<FurtherKernels>();
  }
  if (variable_bytes != 0) {
    std::unique_lock lock(session.objects);
    module->variables.count(session.guest_device(where->device).variables(), variable_bytes);
  }
  *id = handle;
  return session.show_output(CUDA_SUCCESS);
}

CUresult read_image_file(const char* path, std::string* bytes) {
  std::unique_ptr<FILE, int (*)(FILE*)> file(std::fopen(path, "rbe"), std::fclose);
  struct stat info;
  if (file == nullptr || ::fstat(::fileno(file.get()), &info) != 0)
    return CUDA_ERROR_FILE_NOT_FOUND;
  bytes->assign(static_cast<size_t>(info.st_size), '\0');
  const size_t got = std::fread(bytes->data(), 1, bytes->size(), file.get());
  return got == bytes->size() ? CUDA_SUCCESS : CUDA_ERROR_FILE_NOT_FOUND;
}

CUresult load_file(Session& session, Context* context, const char* path, const LoadOptions& options,
                   uint64_t* id) {
  if (path == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::string bytes, why;
  if (const CUresult r = read_image_file(path, &bytes); r != CUDA_SUCCESS) return r;
  if (!cudart::check_image(bytes.data(), bytes.size(), &why)) return CUDA_ERROR_INVALID_IMAGE;
  return load_image(session, context, bytes.c_str(), options, id);
}

void unload(Session& session, Module* module) {
  (void)session.show_output(CUDA_SUCCESS);
  wire::ModuleUnloadArgs args;
  args.module = module->id;
  if (module->library == 0) session.post(module->context, Op::kModuleUnload, args);
  if (module->variables.bytes() != 0) session.unloads.fetch_add(1, std::memory_order_relaxed);
  std::unique_lock lock(session.objects);
  for (Kernel& kernel : module->kernels) {
    if (kernel.function_id != 0) session.functions.remove(kernel.function_id);
    if (kernel.kernel_id != 0) session.kernels.remove(kernel.kernel_id);
  }
  for (const auto& [owner, globals] : module->globals) {
    for (const auto& [name, global] : globals) session.memory().remove_foreign(global.address);
  }
  const uint64_t id = module->id;
  if (!session.modules.remove(id)) session.libraries.remove(id);
}

void forget_modules(Session& session, Context* context) {
  std::vector<uint64_t> ids;
  {
    std::unique_lock lock(session.objects);
    session.modules.for_each([&](uint64_t id, Module& module) {
      if (module.context == context) ids.push_back(id);
    });
    for (const uint64_t id : ids) {
      Module* module = session.modules.find(id);
      for (Kernel& kernel : module->kernels) {
        if (kernel.function_id != 0) session.functions.remove(kernel.function_id);
      }
      session.modules.remove(id);
    }
    // Variables of libraries are a context's own: they are asked for again in the next one.
    session.libraries.for_each(
        [&](uint64_t, Module& library) { library.globals.erase(context->id); });
  }
}

uint64_t function_handle(Session& session, Module* module, uint64_t owner, uint32_t index,
                         bool kernel) {
  std::unique_lock lock(session.objects);
  Kernel& entry = module->kernels[index];
  uint64_t& known = kernel ? entry.kernel_id : entry.function_id;
  if (known != 0) return known;
  const uint64_t id = kernel ? session.kernels.insert() : session.functions.insert();
  Function* function = kernel ? session.kernels.find(id) : session.functions.find(id);
  if (function == nullptr) return 0;
  *function = {module->id, index, &entry, module->context, owner, module->home, module->home_life};
  known = id;
  return id;
}

Module* find_module(Session& session, CUmodule handle) {
  Module* module = session.modules.find(id_of(handle));
  if (module != nullptr && module->library != 0) return session.libraries.find(module->library);
  return module;
}

namespace {

// Descriptors of pages come in the order of the answers, so one asks at a time.
CUresult ask_for_global(Session& session, Context* context, const wire::ModuleGlobalArgs& args,
                        std::string_view name, wire::ModuleGlobalReply* answer) {
  static std::mutex in_order;
  std::lock_guard lock(in_order);
  const CUresult result =
      session.ask(context, Op::kModuleGlobal, args, answer, std::as_bytes(std::span(name)));
  if (result != CUDA_SUCCESS || answer->shared_bytes == 0) return result;
  if (CUresult r = map_managed(session, answer->shared_base, answer->shared_bytes);
      r != CUDA_SUCCESS) {
    return r;
  }
  if (!session.managed().contains(answer->shared_base))
    session.managed().add(answer->shared_base, answer->shared_bytes);
  return CUDA_SUCCESS;
}

}  // namespace

CUresult find_global(Session& session, Context* context, Module* module, const char* name,
                     CUdeviceptr* address, size_t* bytes) {
  if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  // Without a context: managed variables of a library, which are the same in all.
  const uint64_t owner = module->context != nullptr ? module->context->id
                         : context != nullptr       ? context->id
                                                    : 0;
  Global global;
  bool known;
  {
    std::unique_lock lock(session.objects);
    const auto& globals = module->globals[owner];
    const auto it = globals.find(std::string_view(name));
    known = it != globals.end();
    if (known) global = it->second;
  }
  if (!known) {
    wire::ModuleGlobalArgs args;
    args.module = module->id;
    wire::ModuleGlobalReply answer;
    const std::string_view text(name);
    if (text.empty() || text.size() > protocol::kBlobInlineBytesMax) return CUDA_ERROR_NOT_FOUND;
    const CUresult result = ask_for_global(session, context, args, text, &answer);
    if (result != CUDA_SUCCESS) return result;
    global = {answer.address, answer.bytes};
    session.guest_device(context != nullptr ? context->device : 0)
        .memory()
        .add_foreign(global.address, global.bytes, owner);
    std::unique_lock lock(session.objects);
    module->globals[owner].emplace(name, global);
  }
  if (address != nullptr) *address = global.address;
  if (bytes != nullptr) *bytes = global.bytes;
  return CUDA_SUCCESS;
}

}  // namespace vgpu::shim
