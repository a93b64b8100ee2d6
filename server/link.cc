// Linking: a helper thread calls the driver, since adding an input compiles it.
// SPDX-License-Identifier: Apache-2.0
#include "server/link.h"

#include <algorithm>
#include <cstring>

#include "api/cudart/image.h"
#include "server/session.h"
#include "server_handlers.h"

namespace vgpu::server {
namespace {

constexpr uint32_t kLogBytesMax = 1 << 20;

struct Input {
  CUjitInputType type;
  std::string name;
  ImageBytes bytes;
};

// The driver's link, made with the first use. link.mutex is held, its context is current.
CUresult open(Link& link) {
  if (link.state != nullptr) return CUDA_SUCCESS;
  const DriverTable& driver = *link.driver;
  if (driver.cuLinkCreate_v2 == nullptr || driver.cuLinkAddData_v2 == nullptr ||
      driver.cuLinkComplete == nullptr || driver.cuLinkDestroy == nullptr) {
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  const uint32_t room = std::min(link.log_bytes, kLogBytesMax);
  link.infos.assign(room + 1, 0);
  link.errors.assign(room + 1, 0);
  std::vector<CUjit_option> options;
  std::vector<void*> values;
  const auto add = [&](CUjit_option option, uintptr_t value) {
    options.push_back(option);
    values.push_back(reinterpret_cast<void*>(value));
  };
  if (room > 0) {
    add(CU_JIT_ERROR_LOG_BUFFER, reinterpret_cast<uintptr_t>(link.errors.data()));
    add(CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, room);
    add(CU_JIT_INFO_LOG_BUFFER, reinterpret_cast<uintptr_t>(link.infos.data()));
    add(CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, room);
  }
  if (link.max_registers > 0) add(CU_JIT_MAX_REGISTERS, link.max_registers);
  if (link.optimization_level >= 0)
    add(CU_JIT_OPTIMIZATION_LEVEL, static_cast<uintptr_t>(link.optimization_level));
  link.option_values = std::move(values);  // the driver writes sizes there
  return driver.cuLinkCreate_v2(static_cast<unsigned>(options.size()), options.data(),
                                link.option_values.data(), &link.state);
}

// Calls `work` with the link's context current and the link its own.
template <typename Work>
CUresult with(Link& link, Work work) {
  const Rundown::Use use(&link.context->use);
  if (!use) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  const CUresult current = link.driver->cuCtxSetCurrent(link.context->handle);
  if (current != CUDA_SUCCESS) return current;
  const std::lock_guard alone(link.mutex);
  const CUresult opened = open(link);
  return opened == CUDA_SUCCESS ? work(*link.driver) : opened;
}

// Both logs behind one another; *info and *error are how much of them there is.
void put_logs(Link& link, std::span<std::byte> room, uint64_t* info, uint64_t* error) {
  const std::lock_guard alone(link.mutex);
  const auto put = [&room](const std::vector<char>& log) {
    const uint64_t bytes = std::min<uint64_t>(strnlen(log.data(), log.size()), room.size());
    std::memcpy(room.data(), log.data(), bytes);
    room = room.subspan(bytes);
    return bytes;
  };
  *info = put(link.infos);
  *error = put(link.errors);
}

Link* find(Session& session, uint64_t id, std::shared_ptr<Link>* link) {
  const LinkEntry* entry = session.links().find(id);
  if (entry == nullptr || entry->link->context != session.bound()) return nullptr;
  *link = entry->link;
  return link->get();
}

}  // namespace

Link::~Link() {
  const Rundown::Use use(&context->use);
  if (use && state != nullptr) (void)driver->cuLinkDestroy(state);
}

bool handle_LinkCreate(Session& session, const wire::LinkCreateArgs& args, const Record& record) {
  if (session.bound() == nullptr) return session.malformed(record, "no context is bound");
  if (session.links().size() >= protocol::kLinksMax)
    return session.malformed(record, "too many links");
  auto link = std::make_shared<Link>(&session.driver(), session.bound());
  link->log_bytes = args.log_bytes;
  link->max_registers = args.max_registers;
  link->optimization_level = args.optimization_level;
  if (session.links().insert(args.link, std::make_unique<LinkEntry>(LinkEntry{link})) == nullptr)
    return session.malformed(record, "link id");
  return session.complete(record, CUDA_SUCCESS, nullptr, 0);
}

bool handle_LinkAdd(Session& session, const wire::LinkAddArgs& args, const Record& record) {
  std::shared_ptr<Link> link;
  if (find(session, args.link, &link) == nullptr) return session.malformed(record, "unknown link");
  if (record.reply() == protocol::kNoReply) return session.malformed(record, "no reply slot");
  const auto room =
      protocol::slab_range(session.channel().down_slab(), args.slab_offset, args.slab_bytes);
  if (!room || args.type >= CU_JIT_NUM_INPUT_TYPES)
    return session.malformed(record, "slab range or type of input");
  auto input = std::make_shared<Input>();
  input->type = static_cast<CUjitInputType>(args.type);
  input->name = std::string(record.blob().text());
  if (!session.modules().take_upload(args.upload, &input->bytes))
    return session.malformed(record, "input is not complete");
  // A driver follows what stands in an image, so it is measured first. It is told how long an
  // object or an archive is.
  std::string why;
  const bool image = args.type == CU_JIT_INPUT_CUBIN || args.type == CU_JIT_INPUT_FATBINARY;
  if (image && !cudart::check_image(input->bytes.data(), input->bytes.size(), &why))
    return session.malformed(record, why.c_str());
  session.pool().post([&session, link, input, room = *room, reply = record.reply()] {
    const CUresult result = with(*link, [&](const DriverTable& driver) {
      // Text may come without its NUL.
      const size_t bytes = input->bytes.size() + (input->type == CU_JIT_INPUT_PTX ? 1 : 0);
      return driver.cuLinkAddData_v2(link->state, input->type, input->bytes.data(), bytes,
                                     input->name.c_str(), 0, nullptr, nullptr);
    });
    wire::LinkAddReply answer;
    put_logs(*link, room, &answer.info_bytes, &answer.error_bytes);
    session.channel().replies().complete_with(reply, session.noted(result, link->context), answer);
  });
  return true;
}

bool handle_LinkComplete(Session& session, const wire::LinkCompleteArgs& args,
                         const Record& record) {
  std::shared_ptr<Link> link;
  if (find(session, args.link, &link) == nullptr) return session.malformed(record, "unknown link");
  if (record.reply() == protocol::kNoReply) return session.malformed(record, "no reply slot");
  const auto room =
      protocol::slab_range(session.channel().down_slab(), args.slab_offset, args.slab_bytes);
  if (!room) return session.malformed(record, "slab range");
  session.pool().post([&session, link, room = *room, reply = record.reply()] {
    wire::LinkCompleteReply answer;
    const CUresult result = with(*link, [&](const DriverTable& driver) {
      void* image = nullptr;
      size_t bytes = 0;
      const CUresult linked = driver.cuLinkComplete(link->state, &image, &bytes);
      if (linked != CUDA_SUCCESS) return linked;
      link->image = static_cast<const uint8_t*>(image);
      link->image_bytes = answer.image_bytes = bytes;
      return CUDA_SUCCESS;
    });
    put_logs(*link, room, &answer.info_bytes, &answer.error_bytes);
    session.channel().replies().complete_with(reply, session.noted(result, link->context), answer);
  });
  return true;
}

bool handle_LinkFetch(Session& session, const wire::LinkFetchArgs& args, const Record& record) {
  std::shared_ptr<Link> link;
  if (find(session, args.link, &link) == nullptr) return session.malformed(record, "unknown link");
  const auto room =
      protocol::slab_range(session.channel().down_slab(), args.slab_offset, args.slab_bytes);
  if (!room) return session.malformed(record, "slab range");
  const std::unique_lock alone(link->mutex, std::try_to_lock);  // a helper may be compiling
  if (!alone.owns_lock() || args.offset > link->image_bytes)
    return session.malformed(record, "nothing is linked");
  wire::LinkFetchReply reply;
  reply.bytes = std::min<uint64_t>(room->size(), link->image_bytes - args.offset);
  if (reply.bytes != 0) std::memcpy(room->data(), link->image + args.offset, reply.bytes);
  return session.complete(record, CUDA_SUCCESS, &reply, sizeof(reply));
}

bool handle_LinkDestroy(Session& session, const wire::LinkDestroyArgs& args, const Record& record) {
  std::shared_ptr<Link> link;
  if (find(session, args.link, &link) == nullptr) return session.malformed(record, "unknown link");
  session.links().take(args.link);
  return session.complete(record, CUDA_SUCCESS, nullptr, 0);
}

}  // namespace vgpu::server
