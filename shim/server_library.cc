// Being one of several: what the router of a guest with several servers asks of this copy.
// SPDX-License-Identifier: Apache-2.0
#include "shim/server_library.h"

#include <atomic>
#include <string>

#include "api/calls/error_log.h"
#include "api/server_library.h"
#include "base/env.h"
#include "base/slot_map.h"
#include "protocol/transport/net_plugin.h"
#include "shim/process.h"

namespace vgpu::shim {
namespace {

// Written once, by the router, before any other call.
struct Told {
  std::atomic<bool> configured{false};
  std::string address, folder;
};
Told& told() {
  static auto* const it = new Told;  // NOLINT: calls come at exit
  return *it;
}

CUresult configure(const ServerSettings* settings) {
  if (settings == nullptr || settings->address == nullptr || settings->folder == nullptr ||
      settings->number >= kServersMax)
    return CUDA_ERROR_INVALID_VALUE;
  if (Process::session() != nullptr || is_one_of_several()) return CUDA_ERROR_INVALID_VALUE;
  told().address = settings->address;
  told().folder = settings->folder;
  g_minting_owner = SlotId::of_owner(settings->number);
  calls::leave_failures_to_others();
  // release: partner is the acquire in is_one_of_several().
  told().configured.store(true, std::memory_order_release);
  return CUDA_SUCCESS;
}

int is_lost() {
  Session* session = Process::session();
  return session != nullptr && session->state() != CUDA_SUCCESS ? 1 : 0;
}

void ranges(ServerRanges* out) {
  *out = {};
  Session* session = Process::session();
  if (session == nullptr) return;
  const protocol::HelloReply& hello = session->hello();
  *out = {hello.device_range.base, hello.device_range.bytes, hello.host_range.base,
          hello.host_range.bytes};
}

CUcontext some_context(CUcontext preferred) {
  Session* session = Process::session();
  if (session == nullptr) return nullptr;
  const Context* context =
      preferred != nullptr ? session->contexts().find_living(preferred) : nullptr;
  if (context == nullptr || !context->active.load(std::memory_order_acquire))
    context = session->contexts().any_active();
  return context != nullptr ? context->handle() : nullptr;
}

CUresult primary_context(CUcontext* out, CUdevice device) {
  Session* session = Process::session();
  if (session == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  const Context* context = session->contexts().primary(device);
  if (context == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  *out = context->handle();
  return CUDA_SUCCESS;
}

KnownMemory knows(CUdeviceptr address, CUcontext* context) {
  Session* session = Process::session();
  if (session == nullptr) return KnownMemory::kNone;
  KnownMemory kind = KnownMemory::kDevice;
  Allocation allocation;
  HostBlock block;
  uint64_t owner = 0;
  if (session->memory().find(address, &allocation)) {
    owner = allocation.context;
  } else if (session->host_memory().find(address, &block)) {
    owner = block.context;
    kind = KnownMemory::kHost;
  } else {
    return KnownMemory::kNone;
  }
  if (context != nullptr) *context = handle_of<CUcontext>(owner);
  return kind;
}

constexpr ServerLibrary kTable = {configure, is_lost, ranges, some_context, primary_context, knows};

}  // namespace

// acquire: partner is the release in configure().
bool is_one_of_several() { return told().configured.load(std::memory_order_acquire); }

Result<protocol::Address> server_address() {
  return is_one_of_several() ? protocol::parse_address(told().address)
                             : protocol::default_address();
}

std::string network_plugin() {
  if (!is_one_of_several() || env_text("VGPU_NET_PLUGIN")) return protocol::net_plugin_path();
  return told().folder + "/" + protocol::kNetPluginFile;
}

const void* server_library_table(const CUuuid* id) {
  static const CUuuid ours = server_library_id();
  const bool asked = id != nullptr && std::memcmp(id->bytes, ours.bytes, sizeof(ours.bytes)) == 0;
  return asked ? &kTable : nullptr;
}

}  // namespace vgpu::shim
