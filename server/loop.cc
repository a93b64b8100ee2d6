// Guest and server in one process. Nothing is ever torn down: the process's end does that.
// SPDX-License-Identifier: Apache-2.0
#include "server/loop.h"

#include <atomic>
#include <memory>
#include <thread>

#include "api/driver_loader.h"
#include "base/env.h"
#include "op.h"
#include "server/serve.h"

namespace vgpu::shim {
namespace {

constexpr uint64_t kLoopGrantBytes = uint64_t{1} << 30;
// Of which the guest's virtual memory management has the upper half.
constexpr uint64_t kLoopRangeBytes = uint64_t{1} << 40;

struct LoopServer {
  DriverTable driver;
  std::unique_ptr<server::Devices> devices;
  std::unique_ptr<protocol::WorkerChannel> channel;
  protocol::HelloReply reply;
};

// CUDA_VISIBLE_DEVICES is obeyed by the driver already: it has the same environment.
Status grant(server::Devices* devices, protocol::Hello hello) {
  hello.flags &= ~protocol::kHelloDevicesListed;
  std::vector<server::DeviceIdentity> identities;
  for (size_t i = 0; i < devices->count(); ++i) identities.push_back(devices->at(i)->identity());
  const auto chosen = server::choose_devices(identities, {}, hello);
  if (!chosen.ok()) return chosen.status();
  const uint64_t bytes = hello.memory_bytes != 0 ? hello.memory_bytes : kLoopGrantBytes;
  std::vector<server::DeviceGrant> grants;
  for (const uint32_t device : *chosen) grants.push_back({device, bytes});
  return devices->grant(grants);
}

protocol::Attachment refused(Status status) {
  protocol::Attachment attachment;
  attachment.cuda_error = protocol::kCudaNoDevice;
  attachment.status = std::move(status);
  return attachment;
}

}  // namespace

protocol::Attachment attach_loop(const protocol::Hello& hello) {
  static std::atomic<bool> taken{false};
  if (taken.exchange(true)) {
    return refused(Status(StatusCode::kAlreadyExists, "loop: has its session already"));
  }
  if (Status ok = protocol::check_hello(hello, kWireHash, server::kServerVersion); !ok.ok()) {
    return refused(ok);
  }
  auto* server = new LoopServer;  // NOLINT: lives as long as the process
  const std::string path(env_text("VGPU_SOFT_DRIVER").value_or(VGPU_SOFT_DRIVER_PATH));
  if (const char* error = load_driver_table(path.c_str(), &server->driver); error != nullptr) {
    return refused(Status(StatusCode::kNotFound, path + ": " + error));
  }
  auto devices = server::Devices::open(&server->driver);
  if (!devices.ok()) return refused(devices.status());
  server->devices = std::make_unique<server::Devices>(std::move(*devices));
  if (Status granted = grant(server->devices.get(), hello); !granted.ok()) return refused(granted);
  // Guest and driver share one address space, so only one of them can hold a range: slabs are lent.
  protocol::Hello without_ranges = hello;
  without_ranges.device_ranges.clear();
  server->reply = server::make_reply(server->devices.get(), without_ranges, 1, "soft");
  server->reply.device_range = server->devices->reserve_here(kLoopRangeBytes);
  auto pair = protocol::make_loop(server->reply.sizes);
  if (!pair.ok()) return refused(pair.status());
  auto worker = protocol::WorkerChannel::create(std::move(pair->worker));
  if (!worker.ok()) return refused(worker.status());
  auto guest = protocol::GuestChannel::open(std::move(pair->guest));
  if (!guest.ok()) return refused(guest.status());
  server->channel = std::move(*worker);
  // No connection hangs up when this session ends, so the guest's waits are ended here.
  std::thread([server, here = guest->get()] {
    (void)server::serve_guest(&server->driver, server->devices.get(), server->reply,
                              server->channel.get());
    here->mark_dead();
  }).detach();
  protocol::Attachment attachment;
  attachment.reply = server->reply;
  attachment.channel = std::move(*guest);
  return attachment;
}

}  // namespace vgpu::shim
