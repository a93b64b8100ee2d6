// Puts device, memory and channel together and runs the session.
// SPDX-License-Identifier: Apache-2.0
#include "server/serve.h"

#include "base/env.h"
#include "server/log.h"

namespace vgpu::server {
namespace {

bool register_slab(const DriverTable& driver, std::span<std::byte> slab) {
  const CUresult result =
      driver.cuMemHostRegister_v2 == nullptr
          ? CUDA_ERROR_NOT_SUPPORTED
          : driver.cuMemHostRegister_v2(slab.data(), slab.size(), CU_MEMHOSTREGISTER_PORTABLE);
  if (result == CUDA_SUCCESS) return true;
  log(Level::kWarn, "the driver does not register the channel's memory (%s): copies will wait",
      result_name(driver, result).c_str());
  return false;
}

}  // namespace

SessionEnd serve_guest(const DriverTable* driver, Devices* devices,
                       const protocol::HelloReply& reply, protocol::WorkerChannel* channel,
                       const ServeOptions& options) {
  (void)driver->cuCtxSetCurrent(devices->first().primary());
  // Threads of a session that does not end in order go on with it until the process is over.
  auto owned = std::make_unique<GuestMemory>();
  GuestMemory& memory = *owned;
  memory.set_range(protocol::range_to_reserve(reply.device_range));
  for (size_t i = 0; i < devices->count(); ++i) {
    const Device& device = *devices->at(i);
    auto part = std::make_unique<DeviceMemory>(
        driver, device.number(), device.grant_bytes, reply.allocator,
        protocol::range_of_device(reply.device_range, i, devices->count()));
    part->publish_to(options.page == nullptr ? nullptr : &options.page->used_bytes[i]);
    memory.add(std::move(part));
  }
  Session::Config config;
  config.driver = driver;
  config.devices = devices;
  config.flow = FlowLimits(static_cast<uint32_t>(env_size("VGPU_DRIVER_QUEUE", kDriverQueueDepth)));
  config.late_ns = 1000 * env_size("VGPU_DRIVER_LATE_US", 0);
  const bool shared = channel->transport().same_address_space();
  const bool goes_on = shared || options.neighbours != nullptr;
  if (!goes_on) config.output = &process_output();
  config.neighbours = options.neighbours;
  config.place = options.place;
  config.host_range = reply.host_range;
  config.number = reply.session;
  config.peers = options.peers;
  config.shares = options.shares;
  config.turns = options.turns;
  config.page = options.page;
  config.limits = reply.limits;
  config.passes_descriptors = passes_descriptors(reply);
  config.shares_memory = devices->shares_memory() && !devices->is_shared() && memory.maps() &&
                         config.passes_descriptors;
  if (config.shares_memory) memory.make_shareable();
  if (options.steering != nullptr) options.steering->attach(&memory, &channel->semaphores());
  SessionEnd end;
  const bool up = register_slab(*driver, channel->up_slab());
  const bool down = register_slab(*driver, channel->down_slab());
  auto session = std::make_unique<Session>(config, channel, &memory);
  session->slab_registered(up && down);
  for (uint32_t i = 0; i < memory.devices(); ++i)
    memory.on(i)->count_refusals_in(&session->figures());
  if (options.neighbours != nullptr) options.neighbours->add(session.get());
  end = session->run();
  if (options.neighbours != nullptr) options.neighbours->remove(session.get());
  if (!goes_on) {
    // Its threads may wait for the device for as long as a kernel runs; the process ends now, and
    // with it everything else.
    (void)session.release();
    (void)owned.release();
    return end;
  }
  if (!session->release_all()) {  // the process ends, and the driver still runs what it was given
    (void)session.release();
    (void)owned.release();
    return end;
  }
  session.reset();
  (void)driver->cuCtxSetCurrent(devices->first().primary());
  if (options.neighbours == nullptr) (void)driver->cuCtxSynchronize();
  if (up) (void)driver->cuMemHostUnregister(channel->up_slab().data());
  if (down) (void)driver->cuMemHostUnregister(channel->down_slab().data());
  if (options.steering != nullptr) options.steering->detach();
  memory.release_all();
  return end;
}

}  // namespace vgpu::server
