// Arrays: made by the driver within the guest's quota, named by the guest.
// SPDX-License-Identifier: Apache-2.0
#include "server/array.h"

#include <vector>

#include "server/session.h"
#include "server_handlers.h"

namespace vgpu::server {
namespace {

// The driver may wait for the device inside, which the consumer never does. Then the quota has the
// charged bytes back, and the guest its answer if it waits for one. What nobody waits for goes one
// after the other, lest it take the threads from those who wait.
template <typename Destroy>
bool destroy_later(Session& session, Context* context, uint64_t charged, const Record& record,
                   Destroy&& destroy) {
  const uint32_t reply = record.reply();
  auto job = [&session, context, charged, destroy, lanes = session.lane_ends(), reply] {
    for (const LanePoint& point : lanes) session.lanes().wait(point);
    CUresult result = CUDA_SUCCESS;
    if (const Rundown::Use use(&context->use); use) {  // else it went with its context
      const DriverTable& driver = session.driver();
      (void)driver.cuCtxSetCurrent(context->handle);
      result = session.noted(destroy(driver), context);
    }
    if (result == CUDA_SUCCESS) session.memory().on(context->device)->give_back(charged);
    if (reply != protocol::kNoReply) session.channel().replies().complete(reply, result);
  };
  if (reply != protocol::kNoReply) {
    session.pool().post(std::move(job));
  } else {
    session.drop_queue().post(std::move(job));
  }
  return true;
}

// The guest has checked the descriptor; the driver does it again. Here only what sizes depend on.
bool read_shape(Session& session, const wire::ArrayCreateArgs& args, ArrayShape* shape) {
  CUDA_ARRAY3D_DESCRIPTOR d = {};
  d.Width = args.width;
  d.Height = args.height;
  d.Depth = args.depth;
  d.Format = static_cast<CUarray_format>(args.format);
  d.NumChannels = args.channels;
  d.Flags = args.flags;
  const CUdevice device = session.config().devices->at(session.bound()->device)->number();
  const auto attribute = [&session, device](CUdevice_attribute which) {
    int value = 0;
    (void)session.driver().cuDeviceGetAttribute(&value, which, device);
    return value;
  };
  return make_shape(d, args.levels, attribute, shape) == CUDA_SUCCESS;
}

CUresult create_array(Session& session, uint64_t id, const ArrayShape& shape, bool* good_id) {
  auto array = std::make_unique<Array>();
  array->context = session.bound();
  array->shape = shape;
  array->charged = shape.bytes();
  const CUDA_ARRAY3D_DESCRIPTOR descriptor = shape.descriptor();
  CUarray handle = nullptr;
  DeviceMemory& memory = *session.memory().on(session.bound()->device);
  if (!memory.charge(shape.bytes())) return CUDA_ERROR_OUT_OF_MEMORY;
  const CUresult result = session.driver().cuArray3DCreate_v2(&handle, &descriptor);
  array->handle = handle;
  if (result != CUDA_SUCCESS) memory.discharge(shape.bytes());
  *good_id =
      result != CUDA_SUCCESS || session.arrays().arrays.insert(id, std::move(array)) != nullptr;
  if (!*good_id) (void)session.driver().cuArrayDestroy(handle);
  return result;
}

CUresult create_mipmapped(Session& session, uint64_t id, const ArrayShape& shape, bool* good_id) {
  auto array = std::make_unique<MipmappedArray>();
  array->context = session.bound();
  array->shape = shape;
  array->charged = shape.bytes();
  const CUDA_ARRAY3D_DESCRIPTOR descriptor = shape.descriptor();
  CUmipmappedArray handle = nullptr;
  DeviceMemory& memory = *session.memory().on(session.bound()->device);
  if (!memory.charge(shape.bytes())) return CUDA_ERROR_OUT_OF_MEMORY;
  const CUresult result =
      session.driver().cuMipmappedArrayCreate(&handle, &descriptor, shape.levels);
  array->handle = handle;
  if (result != CUDA_SUCCESS) memory.discharge(shape.bytes());
  *good_id =
      result != CUDA_SUCCESS || session.arrays().mipmapped.insert(id, std::move(array)) != nullptr;
  if (!*good_id) (void)session.driver().cuMipmappedArrayDestroy(handle);
  return result;
}

void drop_levels(ArrayTables& tables, uint64_t mipmapped) {
  std::vector<uint64_t> levels;
  tables.arrays.for_each([&](uint64_t id, const Array& each) {
    if (each.mipmapped == mipmapped) levels.push_back(id);
  });
  for (const uint64_t id : levels) tables.arrays.take(id);
}

}  // namespace

bool handle_ArrayCreate(Session& session, const wire::ArrayCreateArgs& args, const Record& record) {
  if (session.bound() == nullptr) return session.malformed(record, "no context is bound");
  ArrayShape shape;
  if (!read_shape(session, args, &shape))
    return session.complete(record, CUDA_ERROR_INVALID_VALUE, nullptr, 0);
  bool good_id = false;
  const CUresult result = args.levels == 0 ? create_array(session, args.array, shape, &good_id)
                                           : create_mipmapped(session, args.array, shape, &good_id);
  if (result == CUDA_SUCCESS && !good_id) return session.malformed(record, "array id");
  return session.complete(record, result, nullptr, 0);
}

bool handle_ArrayLevel(Session& session, const wire::ArrayLevelArgs& args, const Record& record) {
  const MipmappedArray* mipmapped = session.arrays().mipmapped.find(args.mipmapped);
  if (mipmapped == nullptr || args.level >= mipmapped->shape.levels)
    return session.malformed(record, "unknown level of a mipmapped array");
  auto level = std::make_unique<Array>();
  level->context = mipmapped->context;
  level->shape = mipmapped->shape.of_level(args.level);
  level->mipmapped = args.mipmapped;
  const CUresult result =
      session.driver().cuMipmappedArrayGetLevel(&level->handle, mipmapped->handle, args.level);
  if (result == CUDA_SUCCESS &&
      session.arrays().arrays.insert(args.array, std::move(level)) == nullptr) {
    return session.malformed(record, "array id");
  }
  return session.complete(record, result, nullptr, 0);
}

bool handle_ArrayDestroy(Session& session, const wire::ArrayDestroyArgs& args,
                         const Record& record) {
  const Array* found = session.arrays().arrays.find(args.array);
  if (found == nullptr || found->mipmapped != 0) return session.malformed(record, "unknown array");
  const std::unique_ptr<Array> array = session.arrays().arrays.take(args.array);
  return destroy_later(session, array->context, array->charged, record,
                       [handle = array->handle](const DriverTable& driver) {
                         return driver.cuArrayDestroy(handle);
                       });
}

bool handle_MipmappedArrayDestroy(Session& session, const wire::MipmappedArrayDestroyArgs& args,
                                  const Record& record) {
  const std::unique_ptr<MipmappedArray> array = session.arrays().mipmapped.take(args.mipmapped);
  if (array == nullptr) return session.malformed(record, "unknown mipmapped array");
  drop_levels(session.arrays(), args.mipmapped);
  return destroy_later(session, array->context, array->charged, record,
                       [handle = array->handle](const DriverTable& driver) {
                         return driver.cuMipmappedArrayDestroy(handle);
                       });
}

bool handle_TextureDestroy(Session& session, const wire::TextureDestroyArgs& args,
                           const Record& record) {
  const auto found = session.arrays().textures.find(args.handle);
  if (found == session.arrays().textures.end())
    return session.malformed(record, "unknown texture or surface object");
  const TextureEntry entry = found->second;
  session.arrays().textures.erase(found);
  return destroy_later(session, entry.context, 0, record,
                       [handle = args.handle, surface = entry.surface](const DriverTable& driver) {
                         return surface ? driver.cuSurfObjectDestroy(handle)
                                        : driver.cuTexObjectDestroy(handle);
                       });
}

ArrayRemains take_arrays(ArrayTables* tables, const Context* context) {
  ArrayRemains remains;
  std::erase_if(tables->textures, [&](const auto& each) {
    if (each.second.context != context) return false;
    remains.textures.push_back(each.second);
    return true;
  });
  std::vector<uint64_t> ids;
  tables->arrays.for_each([&](uint64_t id, const Array& each) {
    if (each.context == context) ids.push_back(id);
  });
  for (const uint64_t id : ids) remains.arrays.push_back(tables->arrays.take(id));
  ids.clear();
  tables->mipmapped.for_each([&](uint64_t id, const MipmappedArray& each) {
    if (each.context == context) ids.push_back(id);
  });
  for (const uint64_t id : ids) remains.mipmapped.push_back(tables->mipmapped.take(id));
  for (const auto& array : remains.arrays) remains.charged += array->charged;
  for (const auto& array : remains.mipmapped) remains.charged += array->charged;
  return remains;
}

void destroy_arrays(const DriverTable& driver, ArrayRemains* remains) {
  for (const TextureEntry& each : remains->textures) {
    (void)(each.surface ? driver.cuSurfObjectDestroy(each.handle)
                        : driver.cuTexObjectDestroy(each.handle));
  }
  for (const auto& array : remains->arrays) {
    if (array->mipmapped == 0) (void)driver.cuArrayDestroy(array->handle);
  }
  for (const auto& array : remains->mipmapped) (void)driver.cuMipmappedArrayDestroy(array->handle);
  *remains = {};
}

}  // namespace vgpu::server
