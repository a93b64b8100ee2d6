// Modules: images arrive in pieces, are loaded by a helper thread, and described to the guest.
// SPDX-License-Identifier: Apache-2.0
#include "server/module.h"

#include <algorithm>
#include <cstring>

#include "api/cudart/image.h"
#include "base/unique_fd.h"
#include "server/log.h"
#include "server/session.h"
#include "server_handlers.h"

namespace vgpu::server {
namespace {

constexpr uint64_t align8(uint64_t bytes) { return (bytes + 7) & ~uint64_t{7}; }

}  // namespace

Module* ModuleTable::find_ready(uint64_t id) const {
  auto* found = modules.find(id);
  if (found == nullptr) found = libraries.find(id);
  // acquire: partner is the helper thread's release once the module is filled.
  if (found == nullptr || !(*found)->ready.load(std::memory_order_acquire)) return nullptr;
  Module* module = found->get();
  return module->library != nullptr || module->context->alive() ? module : nullptr;
}

bool ModuleTable::take_upload(uint64_t id, ImageBytes* bytes) {
  const auto upload = uploads.find(id);
  if (upload == uploads.end() || upload->second.filled < upload->second.bytes.size()) return false;
  *bytes = std::move(upload->second.bytes);
  upload_bytes -= bytes->size();
  uploads.erase(upload);
  return true;
}

bool charge_variables(GuestMemory* memory, Module* module, const Context* context) {
  if (module->variable_bytes == 0 || module->charges.contains(context)) return true;
  std::shared_ptr<Charge> charge =
      memory->on(context->device)->charge_shared(module->variable_bytes);
  const bool fits = charge != nullptr;
  if (fits) module->charges[context] = std::move(charge);
  return fits;
}

bool forget_globals(GuestMemory* memory, Module* module, const Context* context) {
  return std::erase_if(module->globals, [&](const auto& each) {
           const auto& [address, global] = each;
           if (context != nullptr && global.context != context) return false;
           memory->remove_global(address, global.bytes);
           return true;
         }) != 0;
}

bool handle_ImageChunk(Session& session, const wire::ImageChunkArgs& args, const Record& record) {
  ModuleTable& table = session.modules();
  auto it = table.uploads.find(args.upload);
  if (it == table.uploads.end()) {
    if (args.total == 0 || args.total > kImageBytesMax || table.uploads.size() >= kUploadsMax ||
        args.total > kUploadBytesMax - table.upload_bytes) {
      return session.malformed(record, "image size");
    }
    ModuleTable::Upload upload;
    if (!upload.bytes.make(args.total)) return session.malformed(record, "no memory for an image");
    it = table.uploads.emplace(args.upload, std::move(upload)).first;
    table.upload_bytes += args.total;
  }
  const ImageBytes& image = it->second.bytes;
  if (args.total != image.size() || args.offset > image.size() ||
      args.bytes > image.size() - args.offset) {
    return session.malformed(record, "image piece");
  }
  const std::byte* source = record.blob().data();
  const bool staged = record.blob().empty();
  if (staged) {
    const auto piece =
        protocol::slab_range(session.channel().up_slab(), args.slab_offset, args.bytes);
    if (!piece) return session.malformed(record, "slab range");
    source = piece->data();
  } else if (record.blob().size() != args.bytes) {
    return session.malformed(record, "blob size");
  }
  if (args.bytes > 0) std::memcpy(image.data() + args.offset, source, args.bytes);
  it->second.filled += args.bytes;
  if (staged) session.slab_used(nullptr, args.bytes, record.sequence());
  return session.complete(record, CUDA_SUCCESS, nullptr, 0);
}

// Ids of loads that failed: the guest gives such an index away again.
static void forget_failed(HandleTable<std::shared_ptr<Module>>* handles) {
  std::vector<uint64_t> ids;
  handles->for_each([&](uint64_t id, std::shared_ptr<Module>& module) {
    // acquire: partner is the helper's release once the load is over.
    const bool over = !module->loading.load(std::memory_order_acquire);
    if (over && !module->ready.load(std::memory_order_acquire)) ids.push_back(id);
  });
  for (uint64_t id : ids) handles->take(id);
}

bool handle_ModuleLoad(Session& session, const wire::ModuleLoadArgs& args, const Record& record) {
  ModuleTable& table = session.modules();
  if (session.bound() == nullptr) return session.malformed(record, "no context is bound");
  if (record.reply() == protocol::kNoReply) return session.malformed(record, "no reply slot");
  if (args.kind > 1) return session.malformed(record, "kind of module");
  const auto room =
      protocol::slab_range(session.channel().down_slab(), args.slab_offset, args.slab_bytes);
  if (!room) return session.malformed(record, "slab range");
  auto request = std::make_shared<LoadRequest>();
  if (!table.take_upload(args.upload, &request->image))
    return session.malformed(record, "image is not complete");
  std::string why;  // a driver follows what stands in an image, so it is measured first
  if (!cudart::check_image(request->image.data(), request->image.size(), &why))
    return session.malformed(record, why.c_str());
  request->library = args.kind == 1;
  request->log_bytes = args.log_bytes;
  request->max_registers = args.max_registers;
  request->optimization_level = args.optimization_level;
  auto module = std::make_shared<Module>();
  module->context = session.bound();
  if (request->library) module->request = request;
  auto& handles = request->library ? table.libraries : table.modules;
  forget_failed(&handles);
  if (handles.insert(args.module, std::make_unique<std::shared_ptr<Module>>(module)) == nullptr) {
    return session.malformed(record, "module id");
  }
  session.pool().post([&session, request, module, room = *room, reply = record.reply()] {
    const CUresult result =
        session.noted(load_code(session.driver(), &session.memory(), request.get(), module.get()),
                      module->context);
    wire::ModuleLoadReply answer;
    answer.variable_bytes = module->variable_bytes;  // when the quota does not reach, too
    if (result == CUDA_SUCCESS) answer.layout_bytes = module->layout.size();
    if (request->prints) session.code_prints();  // before the guest can launch it
    if (request->prints && session.is_packed())
      log(Level::kWarn,
          "a packed guest's kernels print: nobody can tell whose it is, it is dropped");
    answer.prints = request->prints ? 1 : 0;
    if (module->layout.size() <= room.size() && result == CUDA_SUCCESS) {
      std::memcpy(room.data(), module->layout.data(), module->layout.size());
    }
    const uint64_t log_at = align8(answer.layout_bytes);
    if (log_at < room.size()) {
      answer.log_bytes = std::min<uint64_t>(request->log.size(), room.size() - log_at);
      std::memcpy(room.data() + log_at, request->log.data(), answer.log_bytes);
    }
    // release: partner is the consumer's acquire before it uses the module.
    module->ready.store(result == CUDA_SUCCESS, std::memory_order_release);
    module->loading.store(false,
                          std::memory_order_release);  // before the answer: see forget_failed
    session.channel().replies().complete_with(reply, result, answer);
  });
  return true;
}

bool handle_LayoutFetch(Session& session, const wire::LayoutFetchArgs& args, const Record& record) {
  const std::shared_ptr<Module> module = session.modules().find(args.module);
  // acquire: partner is the helper thread's release. The layout outlives the module's context.
  if (module == nullptr || !module->ready.load(std::memory_order_acquire))
    return session.malformed(record, "unknown module");
  const auto room =
      protocol::slab_range(session.channel().down_slab(), args.slab_offset, args.slab_bytes);
  if (!room || args.offset > module->layout.size()) {
    return session.malformed(record, "slab range");
  }
  wire::LayoutFetchReply reply;
  reply.bytes = std::min<uint64_t>(room->size(), module->layout.size() - args.offset);
  std::memcpy(room->data(), module->layout.data() + args.offset, reply.bytes);
  return session.complete(record, CUDA_SUCCESS, &reply, sizeof(reply));
}

// Work may still use the code, in any context if it is a library's; a helper waits for that, and
// the handle goes at once. Nobody waits for the helper.
bool handle_ModuleUnload(Session& session, const wire::ModuleUnloadArgs& args,
                         const Record& record) {
  ModuleTable& table = session.modules();
  const std::shared_ptr<Module> module = table.find(args.module);
  // acquire: partner is the helper thread that loads it.
  if (module == nullptr || module->loading.load(std::memory_order_acquire)) {
    return session.malformed(record, "unknown module");
  }
  if (table.modules.take(args.module) == nullptr) table.libraries.take(args.module);
  forget_globals(&session.memory(), module.get());
  if (!module->ready.load(std::memory_order_acquire)) {
    return session.complete(record, CUDA_SUCCESS, nullptr, 0);  // its load had failed
  }
  session.drop_queue().post(session.behind_all([&session, module](CUresult) {
    const DriverTable& driver = session.driver();
    const Rundown::Use use(&module->context->use);
    if (!use && module->library == nullptr) return;  // it went with its context
    (void)driver.cuCtxSetCurrent(use ? module->context->handle : session.home());
    const CUresult result = module->library != nullptr ? driver.cuLibraryUnload(module->library)
                                                       : driver.cuModuleUnload(module->module);
    session.noted(result, module->context);
    module->renewed.clear();  // with a context current
    module->charges.clear();
    if (session.prints()) session.publish_output();
  }));
  return session.complete(record, CUDA_SUCCESS, nullptr, 0);
}

// The pages of a managed variable: the guest gets their descriptor, and has them at the same
// address. Drivers that do not give one away cannot have such variables used by guests.
static CUresult share_managed(Session& session, CUdeviceptr address,
                              wire::ModuleGlobalReply* reply) {
  constexpr uint64_t kPage = 4096;
  const DriverTable& driver = session.driver();
  unsigned managed = 0;
  CUdeviceptr base = 0;
  size_t bytes = 0;
  if (driver.cuPointerGetAttribute == nullptr ||
      driver.cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, address) !=
          CUDA_SUCCESS ||
      managed == 0) {
    return CUDA_SUCCESS;
  }
  if (driver.cuPointerGetAttribute(&base, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, address) !=
          CUDA_SUCCESS ||
      driver.cuPointerGetAttribute(&bytes, CU_POINTER_ATTRIBUTE_RANGE_SIZE, address) !=
          CUDA_SUCCESS) {
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  reply->shared_base = base;
  reply->shared_bytes = (bytes + kPage - 1) / kPage * kPage;
  if (session.channel().transport().same_address_space()) return CUDA_SUCCESS;
  int descriptor = -1;
  if (!session.config().passes_descriptors || driver.cuMemGetHandleForAddressRange == nullptr ||
      driver.cuMemGetHandleForAddressRange(&descriptor, base, reply->shared_bytes,
                                           CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD,
                                           0) != CUDA_SUCCESS) {
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  const UniqueFd pages(descriptor);
  const bool sent = session.channel().transport().send_descriptor(pages.get(), base).ok();
  return sent ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
}

bool handle_ModuleGlobal(Session& session, const wire::ModuleGlobalArgs& args,
                         const Record& record) {
  Module* module = session.modules().find_ready(args.module);
  if (module == nullptr) return session.malformed(record, "unknown module");
  const std::string name(record.blob().text());
  CUdeviceptr address = 0;
  size_t bytes = 0;
  const DriverTable& driver = session.driver();
  if (session.bound() != nullptr && !charge_variables(&session.memory(), module, session.bound())) {
    return session.complete(record, CUDA_ERROR_OUT_OF_MEMORY, nullptr, 0);
  }
  const CUlibrary library = library_in(*module, session.bound());
  CUresult result =
      library != nullptr
          ? driver.cuLibraryGetGlobal(&address, &bytes, library, name.c_str())
          : driver.cuModuleGetGlobal_v2(&address, &bytes, module->module, name.c_str());
  wire::ModuleGlobalReply reply;
  if (result == CUDA_SUCCESS) result = share_managed(session, address, &reply);
  if (result == CUDA_SUCCESS) {
    session.memory()
        .on(session.bound() == nullptr ? 0 : session.bound()->device)
        ->add_global(address, bytes);
    // Managed ones are of no context, and go with the module.
    module->globals[address] = {bytes, reply.shared_bytes != 0 ? nullptr : session.bound()};
    reply.address = address;
    reply.bytes = bytes;
  }
  return session.complete(record, result, &reply, sizeof(reply));
}

}  // namespace vgpu::server
