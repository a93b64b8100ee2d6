// The page, and who is told when a record is past.
// SPDX-License-Identifier: Apache-2.0
#include "server/peer_event.h"

#include <cstddef>

#include "protocol/transport/transport.h"

namespace vgpu::server {
namespace {

constexpr size_t kPageBytes = 4096;

}  // namespace

std::shared_ptr<PeerEvent> PeerEvent::make(const DriverTable* driver, Disposer disposer) {
  return {new PeerEvent(driver), [disposer = std::move(disposer)](PeerEvent* event) {
            disposer(std::shared_ptr<PeerEvent>(event));
          }};
}

Status PeerEvent::map(UniqueFd file) {
  VGPU_RETURN_IF_ERROR(protocol::check_sealed_memory(file.get(), kPageBytes));
  Result<Mapping> mapping = Mapping::map_shared(file.get(), kPageBytes);
  if (!mapping.ok()) return mapping.status();
  mapping_ = std::move(mapping).value();
  file_ = std::move(file);
  return ok_status();
}

CUresult PeerEvent::register_page() {
  if (driver_->cuMemHostRegister_v2 == nullptr ||
      driver_->cuMemHostGetDevicePointer_v2 == nullptr || driver_->cuMemHostUnregister == nullptr ||
      driver_->cuStreamWaitValue32_v2 == nullptr) {
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  CUresult result = driver_->cuMemHostRegister_v2(
      mapping_.data(), kPageBytes, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);
  if (result != CUDA_SUCCESS) return result;
  registered_ = true;
  CUdeviceptr address = 0;
  result = driver_->cuMemHostGetDevicePointer_v2(&address, mapping_.data(), 0);
  if (result == CUDA_SUCCESS) word_ = address + offsetof(EventPage, completed);
  return result;
}

Result<std::shared_ptr<PeerEvent>> PeerEvent::create(const DriverTable* driver, Disposer disposer) {
  const std::shared_ptr<PeerEvent> event = make(driver, std::move(disposer));
  Result<UniqueFd> file = protocol::make_sealed_memory(kPageBytes, "vgpu-event");
  if (!file.ok()) return file.status();
  VGPU_RETURN_IF_ERROR(event->map(std::move(file).value()));
  event->page()->magic = EventPage::kMagic;
  return event;
}

Result<std::shared_ptr<PeerEvent>> PeerEvent::open(const DriverTable* driver, Disposer disposer,
                                                   UniqueFd file, UniqueFd link,
                                                   uint32_t participant) {
  const std::shared_ptr<PeerEvent> event = make(driver, std::move(disposer));
  VGPU_RETURN_IF_ERROR(event->map(std::move(file)));
  if (event->page()->magic != EventPage::kMagic)
    return Status(StatusCode::kMalformed, "no page of an event");
  event->participant_ = participant;
  event->link_ = std::move(link);
  link_watch().add(event->link_.get(), [weak = std::weak_ptr<PeerEvent>(event)] {
    if (const std::shared_ptr<PeerEvent> alive = weak.lock()) alive->page()->gone(0);
  });
  return event;
}

PeerEvent::~PeerEvent() {
  if (link_.valid()) link_watch().remove(link_.get());
  if (!registered_) return;
  const CUresult result = driver_->cuMemHostUnregister(mapping_.data());
  // A page that the driver goes on knowing stays: nothing else may come to lie there.
  if (result != CUDA_SUCCESS && result != CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED)
    (void)mapping_.release();
}

}  // namespace vgpu::server
