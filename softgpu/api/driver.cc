// cuInit, fork, and what every call checks first.
// SPDX-License-Identifier: Apache-2.0
#include "softgpu/api/driver.h"

#include <pthread.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "api/callback_scope.h"
#include "api/cudart/host.h"
#include "api/graph/model.h"
#include "api/visible_devices.h"
#include "base/log.h"
#include "driver_functions.h"
#include "softgpu/api/identity.h"

namespace vgpu::softgpu {
namespace {

CUresult current_context(CUcontext* context) {
  Context* const top = context_stack().top();
  *context = top == nullptr ? nullptr : top->handle;
  return CUDA_SUCCESS;
}

CUresult primary_context(CUcontext* context, CUdevice device) {
  if (const CUresult result = check_device(device); result != CUDA_SUCCESS) return result;
  *context = Driver::instance().primary(device).handle;
  return CUDA_SUCCESS;
}

CUresult context_id(CUcontext handle, uint64_t* id) {
  const std::shared_ptr<Context> context = Driver::instance().contexts.find(handle);
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  *id = context->id;
  return CUDA_SUCCESS;
}

CUresult device_identity(int ordinal, CUuuid* uuid, int* domain, int* bus, int* device) {
  if (const CUresult result = check_device(ordinal); result != CUDA_SUCCESS) return result;
  const int identity = Driver::instance().device(ordinal).config().identity;
  *uuid = uuid_of(identity);
  *domain = 0;
  *bus = pci_bus_of(identity);
  *device = 0;
  return CUDA_SUCCESS;
}

uint64_t each_kernel(CUmodule handle, void (*visit)(void*, CUfunction, uint64_t), void* user) {
  const std::shared_ptr<Module> module = Driver::instance().modules.find(handle);
  if (module == nullptr) return 0;
  for (const auto& function : module->functions()) visit(user, function->handle, 0);
  return module->functions().size();
}

CUresult load_module(CUmodule* module, const void* image) {
  return driver::cuModuleLoadData(module, image);
}

const cudart::Host kHost = {
    current_context,
    primary_context,
    context_id,
    [] { return kDriverVersion; },
    [] { return Driver::instance().device_count(); },
    device_identity,
    each_kernel,
    load_module,
};

}  // namespace

Driver& Driver::instance() {
  static Driver* const driver = [] {
    cudart::set_host(&kHost);
    return new Driver();
  }();
  return *driver;
}

CUresult Driver::initialise() {
  std::lock_guard<std::mutex> lock(mutex_);
  switch (state_.load(std::memory_order_acquire)) {
    case kReady:
      return CUDA_SUCCESS;
    case kFailed:
      return failure_;
    case kForked:
      return CUDA_ERROR_NOT_INITIALIZED;
    case kEnded:
      return CUDA_ERROR_DEINITIALIZED;
    default:
      break;
  }
  failure_ = create_devices();
  state_.store(failure_ == CUDA_SUCCESS ? kReady : kFailed, std::memory_order_release);
  return failure_;
}

CUresult Driver::create_devices() {
  std::vector<std::string> uuids;
  for (int i = 0; i < machine_devices(); ++i) uuids.push_back(uuid_text(i));
  const std::vector<int> seen = visible_devices(std::getenv("CUDA_VISIBLE_DEVICES"), uuids);
  if (seen.empty()) return CUDA_ERROR_NO_DEVICE;
  for (const int identity : seen) {
    DeviceConfig config = read_device_config();
    odd_handles = config.contrary;
    graph::Model::instance().odd_handles = config.contrary;
    config.ordinal = device_count();
    config.identity = identity;
    if (identity != 0 && !config.segment_path.empty())
      config.segment_path += "." + std::to_string(identity);
    Result<std::unique_ptr<Device>> device =
        Device::create(std::move(config), devices_.empty() ? nullptr : devices_[0].get());
    if (!device.ok()) {
      VGPU_LOG_ERROR("software GPU: %s", device.status().to_string().c_str());
      return CUDA_ERROR_NO_DEVICE;
    }
    const uint64_t id = kPrimaryId + static_cast<uint64_t>(device_count());
    devices_.push_back(std::move(device).value());
    primaries_.push_back(std::make_shared<Context>(devices_.back().get(), true, id));
    primaries_.back()->handle = contexts.insert(primaries_.back());
  }
  for (const auto& each : devices_) {
    for (const auto& other : devices_) {
      if (each != other) each->memory().add_other(&other->memory());
    }
  }
  pools_ = std::make_unique<DevicePools>(devices_);
  managed.set_devices(device_count());
  ::pthread_atfork(nullptr, nullptr, after_fork_in_child);
  std::atexit(at_exit);
  return CUDA_SUCCESS;
}

// The child has the memory but not the threads: every call fails there, and nothing is touched.
void Driver::after_fork_in_child() {
  Driver& driver = instance();
  if (driver.state_.load() != kReady) return;
  driver.state_.store(kForked);
  for (const auto& device : driver.devices_) device->segment().abandon_after_fork();
}

// Static objects, LLVM's among them, go from here on: what runs must end, and nothing may begin.
void Driver::at_exit() {
  Driver& driver = instance();
  int ready = kReady;
  if (!driver.state_.compare_exchange_strong(ready, kEnded)) return;
  std::vector<std::shared_ptr<Channel>> channels;
  driver.contexts.for_each([&channels](const Context& context) {
    if (context.alive()) channels.push_back(context.channel());
  });
  GridManagement& management = driver.device().management();
  for (const auto& channel : channels) management.fail(channel.get(), CUDA_ERROR_DEINITIALIZED);
  for (const auto& channel : channels) management.wait_for_engines(*channel);
}

CUresult Driver::ready() const {
  const int state = state_.load(std::memory_order_acquire);
  if (state == kReady) [[likely]]
    return inside_host_function ? CUDA_ERROR_NOT_PERMITTED : CUDA_SUCCESS;
  if (state == kEnded) return CUDA_ERROR_DEINITIALIZED;
  return state == kFailed ? failure_ : CUDA_ERROR_NOT_INITIALIZED;
}

CUresult enter_ignoring_errors(Context** context) {
  if (const CUresult result = Driver::instance().ready(); result != CUDA_SUCCESS) return result;
  Context* const top = context_stack().top();
  if (top == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (!top->alive()) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  *context = top;
  return CUDA_SUCCESS;
}

CUresult enter(Context** context) {
  const CUresult result = enter_ignoring_errors(context);
  return result != CUDA_SUCCESS ? result : (*context)->sticky();
}

std::shared_ptr<Stream> find_stream(Context& context, CUstream handle) {
  if (handle == nullptr || handle == CU_STREAM_LEGACY) {
    const green::Green* const view = context_stack().view();
    if (view == nullptr || &context != context_stack().top()) [[likely]]
      return context.legacy_stream();
    return Driver::instance().streams.find(view->default_stream);
  }
  // A green context has one default stream for all threads.
  if (handle == CU_STREAM_PER_THREAD)
    return context_stack().view() == nullptr ? context.per_thread_stream() : nullptr;
  return Driver::instance().streams.find(handle);
}

CUresult check_device(CUdevice device) {
  if (const CUresult result = Driver::instance().ready(); result != CUDA_SUCCESS) return result;
  const bool known = device >= 0 && device < Driver::instance().device_count();
  return known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

}  // namespace vgpu::softgpu
