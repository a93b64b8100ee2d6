// Names and their secrets; descriptors from one worker to the other, a frame full at a time.
// SPDX-License-Identifier: Apache-2.0
#include "server/shares.h"

#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <span>

#include "protocol/limits.h"
#include "protocol/transport/control_socket.h"
#include "server/peer_event.h"

namespace vgpu::server {
namespace {

constexpr uint64_t kShareMagic = 0x766770'7368'0001;
constexpr uint32_t kShareFilesMax = 1 << 20;  // 2 TiB in pieces of 2 MiB

std::span<const uint8_t> bytes_of(const ShareInfo& info) {
  return {reinterpret_cast<const uint8_t*>(&info), sizeof(info)};
}

Result<UniqueFd> export_file(const Share& share, CUmemGenericAllocationHandle handle) {
  int file = -1;
  const CUresult result = share.driver->cuMemExportToShareableHandle(
      &file, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
  if (result != CUDA_SUCCESS)
    return Status(StatusCode::kUnavailable, "the driver does not export the memory");
  return UniqueFd(file);
}

Status import_file(UniqueFd file, Fetched* fetched) {
  CUmemGenericAllocationHandle handle = 0;
  const CUresult result = fetched->driver->cuMemImportFromShareableHandle(
      &handle, reinterpret_cast<void*>(static_cast<intptr_t>(file.get())),
      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  if (result == CUDA_SUCCESS) fetched->handles.push_back(handle);
  if (result == CUDA_SUCCESS) return ok_status();
  return Status(result == CUDA_ERROR_OUT_OF_MEMORY ? StatusCode::kResourceExhausted
                                                   : StatusCode::kUnavailable,
                "the driver does not import the memory");
}

ShareInfo info_of(const Share& share) {
  ShareInfo info = share.info;
  info.magic = kShareMagic;
  info.files = share.event != nullptr ? 1 : static_cast<uint32_t>(share.handles.size());
  return info;
}

// What the other worker says is believed only as far as it fits together.
Status check(const ShareInfo& info) {
  const bool event = info.kind == ShareKind::kEvent;
  const bool memory = info.kind == ShareKind::kMemory || info.kind == ShareKind::kPhysical;
  const bool fits = info.kind == ShareKind::kPool ? info.files == 0 && info.bytes == 0
                    : event
                        ? info.files == 1 && info.bytes == 0
                        : memory && info.files >= 1 && info.files <= kShareFilesMax &&
                              info.bytes != 0 && info.bytes % info.files == 0 &&
                              info.offset <= info.bytes && info.size <= info.bytes - info.offset;
  return info.magic == kShareMagic && fits
             ? ok_status()
             : Status(StatusCode::kMalformed, "description of memory");
}

}  // namespace

Fetched::~Fetched() {
  for (const CUmemGenericAllocationHandle handle : handles) (void)driver->cuMemRelease(handle);
}

Share::~Share() {
  for (const CUmemGenericAllocationHandle handle : handles) (void)driver->cuMemRelease(handle);
}

ShareName Shares::add(uint64_t session, std::shared_ptr<const Share> share) {
  uint64_t secret[2];
  if (::getrandom(secret, sizeof(secret), 0) != sizeof(secret)) return {};
  std::lock_guard lock(mutex_);
  const size_t handles = share->handles.size();
  if (by_secret_.size() >= kSharesMax || handles > kSharedHandlesMax - handles_ ||
      !by_secret_.insert({secret[0], Entry{secret[1], std::move(share)}}).second) {
    return {};
  }
  handles_ += handles;
  return {session, secret[0], secret[1]};
}

void Shares::remove(const ShareName& name) {
  std::shared_ptr<const Share> gone;  // what it holds goes without our lock
  std::lock_guard lock(mutex_);
  const auto found = by_secret_.find(name.secret_low);
  if (found == by_secret_.end() || found->second.secret_high != name.secret_high) return;
  gone = std::move(found->second.share);
  handles_ -= gone->handles.size();
  by_secret_.erase(found);
}

std::shared_ptr<const Share> Shares::find(const ShareName& name) const {
  std::lock_guard lock(mutex_);
  const auto found = by_secret_.find(name.secret_low);
  const bool known = found != by_secret_.end() && found->second.secret_high == name.secret_high;
  return known ? found->second.share : nullptr;
}

Result<Fetched> fetch_here(const Share& share) {
  // As natively, an event is not opened where it was made.
  if (share.event != nullptr) return Status(StatusCode::kNotFound, "an event of this session");
  Fetched fetched(share.driver);
  fetched.info = info_of(share);
  fetched.charges = share.charges;
  for (const CUmemGenericAllocationHandle handle : share.handles) {
    Result<UniqueFd> file = export_file(share, handle);
    if (!file.ok()) return file.status();
    VGPU_RETURN_IF_ERROR(import_file(std::move(file).value(), &fetched));
  }
  return fetched;
}

Status send_share(int socket, const Share& share, uint32_t participant) {
  ShareInfo info = info_of(share);
  info.participant = participant;
  VGPU_RETURN_IF_ERROR(protocol::send_frame(socket, bytes_of(info), {}, kShareTimeoutMs));
  const uint8_t payload = 0;
  if (share.event != nullptr) {
    const int page = share.event->file();
    return protocol::send_frame(socket, std::span(&payload, 1), std::span(&page, 1),
                                kShareTimeoutMs);
  }
  for (size_t done = 0; done < share.handles.size();) {
    std::vector<UniqueFd> batch;
    std::vector<int> descriptors;
    for (; done < share.handles.size() && batch.size() < protocol::kControlDescriptorsMax; ++done) {
      Result<UniqueFd> file = export_file(share, share.handles[done]);
      if (!file.ok()) return file.status();
      descriptors.push_back(file->get());
      batch.push_back(std::move(file).value());
    }
    VGPU_RETURN_IF_ERROR(
        protocol::send_frame(socket, std::span(&payload, 1), descriptors, kShareTimeoutMs));
  }
  return ok_status();
}

Result<Fetched> receive_share(int socket, const DriverTable& driver, const Admit& admit) {
  Fetched fetched(&driver);
  Result<protocol::ControlFrame> first = protocol::receive_frame(socket, kShareTimeoutMs);
  if (!first.ok()) return first.status();
  if (first->bytes.size() != sizeof(fetched.info))
    return Status(StatusCode::kMalformed, "description of memory");
  std::memcpy(&fetched.info, first->bytes.data(), sizeof(fetched.info));
  VGPU_RETURN_IF_ERROR(check(fetched.info));
  VGPU_RETURN_IF_ERROR(admit(&fetched));
  for (size_t arrived = 0; arrived < fetched.info.files;) {
    Result<protocol::ControlFrame> frame = protocol::receive_frame(socket, kShareTimeoutMs);
    if (!frame.ok()) return frame.status();
    if (frame->descriptors.empty() || frame->descriptors.size() > fetched.info.files - arrived)
      return Status(StatusCode::kMalformed, "descriptors of memory");
    arrived += frame->descriptors.size();
    for (UniqueFd& file : frame->descriptors) {
      if (fetched.info.kind == ShareKind::kEvent)
        fetched.page = std::move(file);
      else
        VGPU_RETURN_IF_ERROR(import_file(std::move(file), &fetched));
    }
  }
  return fetched;
}

}  // namespace vgpu::server
