// Names in sealed files, and asking the worker for what they name.
// SPDX-License-Identifier: Apache-2.0
#include "shim/share.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>

#include "base/unique_fd.h"

namespace vgpu::shim {
namespace {

constexpr uint64_t kMagic = 0x656d'616e'7570'6776;
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL;

struct NameFile {
  uint64_t magic = kMagic;
  ShareName name;
};

std::atomic<uint64_t> next_number{1};

}  // namespace

static bool shares(const Session& session, CUdevice_attribute which) {
  const auto& devices = session.hello().devices;
  return !devices.empty() && session.maps_memory() &&
         std::all_of(devices.begin(), devices.end(),
                     [which](const auto& each) { return attribute(each, which) != 0; });
}

bool shares_memory(const Session& session) {
  return shares(session, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED);
}

bool shares_events(const Session& session) {
  return shares(session, CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED);
}

CUresult write_name(Session& session, const ShareName& name, int* descriptor) {
  session.shared().any.store(true);
  UniqueFd file(::memfd_create("vgpu-memory-handle", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  const NameFile content{kMagic, name};
  if (!file.valid() || ::write(file.get(), &content, sizeof(content)) != sizeof(content) ||
      ::fcntl(file.get(), F_ADD_SEALS, kSeals) != 0) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  *descriptor = file.release();
  return CUDA_SUCCESS;
}

bool read_name(int descriptor, ShareName* name) {
  NameFile content;
  const int seals = ::fcntl(descriptor, F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals ||
      ::pread(descriptor, &content, sizeof(content), 0) != sizeof(content) ||
      content.magic != kMagic) {
    return false;
  }
  *name = content.name;
  return true;
}

CUresult FetchedShare::fetch(Session& session, const ShareName& name, uint32_t kind) {
  wire::ShareFetchArgs args;
  args.number = next_number.fetch_add(1, std::memory_order_relaxed);
  args.session = name.session;
  args.secret_low = name.secret_low;
  args.secret_high = name.secret_high;
  wire::ShareFetchReply answer;
  CUresult result = session.ask(nullptr, Op::kShareFetch, args, &answer);
  if (result == CUDA_ERROR_OUT_OF_MEMORY && answer.device < session.hello().devices.size() &&
      session.reclaim(static_cast<CUdevice>(answer.device), answer.bytes)) {
    result = session.ask(nullptr, Op::kShareFetch, args, &answer);
  }
  if (result != CUDA_SUCCESS) return result;
  session.shared().any.store(true);
  session_ = &session;
  number_ = args.number;
  bytes_ = answer.bytes;
  offset_ = answer.offset;
  size_ = answer.size;
  device_ = static_cast<CUdevice>(answer.device);
  const bool known = session.device(device_) != nullptr;
  return known && answer.kind == kind ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

FetchedShare::~FetchedShare() {
  if (session_ == nullptr) return;
  wire::ShareDropArgs args;
  args.number = number_;
  session_->post(nullptr, Op::kShareDrop, args);
}

}  // namespace vgpu::shim
