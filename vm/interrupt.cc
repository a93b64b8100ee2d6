// VFIO in its few steps: driver, container, group, device, vector.
// SPDX-License-Identifier: Apache-2.0
#include "vm/interrupt.h"

#include <fcntl.h>
#include <linux/vfio.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/futex.h"
#include "protocol/limits.h"
#include "protocol/transport/transport.h"

namespace vgpu::vm {
namespace {

Status write_text(const std::string& path, const std::string& text) {
  const UniqueFd file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!file.valid() ||
      ::write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    return Status::from_errno(errno, ("write " + path).c_str());
  }
  return ok_status();
}

Result<std::string> last_part_of_link(const std::string& path) {
  char target[512];
  const ssize_t bytes = ::readlink(path.c_str(), target, sizeof(target) - 1);
  if (bytes <= 0) return Status::from_errno(errno, ("readlink " + path).c_str());
  const std::string whole(target, static_cast<size_t>(bytes));
  return whole.substr(whole.rfind('/') + 1);
}

}  // namespace

Result<std::unique_ptr<Interrupt>> Interrupt::take(const std::string& device) {
  std::unique_ptr<Interrupt> interrupt(new Interrupt);
  VGPU_RETURN_IF_ERROR(interrupt->open_device(device));
  VGPU_RETURN_IF_ERROR(interrupt->use_vector());
  Result<UniqueFd> page = protocol::make_sealed_memory(protocol::kPageBytes, "vgpu-epoch");
  if (!page.ok()) return page.status();
  interrupt->page_ = std::move(page).value();
  Result<Mapping> mapping = Mapping::map_shared(interrupt->page_.get(), protocol::kPageBytes);
  if (!mapping.ok()) return mapping.status();
  interrupt->mapping_ = std::move(mapping).value();
  return interrupt;
}

Status Interrupt::open_device(const std::string& device) {
  const std::string name = device.substr(device.rfind('/') + 1);
  Result<std::string> driver = last_part_of_link(device + "/driver");
  if (!driver.ok() || *driver != "vfio-pci") {
    VGPU_RETURN_IF_ERROR(write_text(device + "/driver_override", "vfio-pci"));
    VGPU_RETURN_IF_ERROR(write_text("/sys/bus/pci/drivers_probe", name));
  }
  Result<std::string> group = last_part_of_link(device + "/iommu_group");
  if (!group.ok()) return group.status();
  container_.reset(::open("/dev/vfio/vfio", O_RDWR | O_CLOEXEC));
  group_.reset(::open(("/dev/vfio/" + *group).c_str(), O_RDWR | O_CLOEXEC));
  if (!container_.valid() || !group_.valid()) return Status::from_errno(errno, "open /dev/vfio");
  const int container = container_.get();
  if (::ioctl(group_.get(), VFIO_GROUP_SET_CONTAINER, &container) != 0 ||
      ::ioctl(container, VFIO_SET_IOMMU, VFIO_TYPE1_IOMMU) != 0) {
    return Status::from_errno(errno, "VFIO container");
  }
  device_.reset(::ioctl(group_.get(), VFIO_GROUP_GET_DEVICE_FD, name.c_str()));
  if (!device_.valid()) return Status::from_errno(errno, "VFIO device");
  // Its memory answers only while the command register says so; a device that is opened may have
  // been reset.
  vfio_region_info config{};
  config.argsz = sizeof(config);
  config.index = VFIO_PCI_CONFIG_REGION_INDEX;
  uint16_t command = 0;
  constexpr uint16_t kMemoryAndMaster = 6;
  constexpr off_t kCommand = 4;
  if (::ioctl(device_.get(), VFIO_DEVICE_GET_REGION_INFO, &config) != 0)
    return Status::from_errno(errno, "VFIO configuration space");
  const auto place = static_cast<off_t>(config.offset) + kCommand;
  if (::pread(device_.get(), &command, sizeof(command), place) != ssize_t{sizeof(command)})
    return Status::from_errno(errno, "VFIO command register");
  command |= kMemoryAndMaster;
  if (::pwrite(device_.get(), &command, sizeof(command), place) != ssize_t{sizeof(command)})
    return Status::from_errno(errno, "VFIO command register");
  return ok_status();
}

Status Interrupt::use_vector() {
  event_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!event_.valid()) return Status::from_errno(errno, "eventfd");
  alignas(vfio_irq_set) char raw[sizeof(vfio_irq_set) + sizeof(int)] = {};
  auto* set = reinterpret_cast<vfio_irq_set*>(raw);
  set->argsz = sizeof(raw);
  set->flags = VFIO_IRQ_SET_DATA_EVENTFD | VFIO_IRQ_SET_ACTION_TRIGGER;
  set->index = VFIO_PCI_MSIX_IRQ_INDEX;
  set->start = 0;
  set->count = 1;
  const int event = event_.get();
  std::memcpy(set->data, &event, sizeof(event));
  if (::ioctl(device_.get(), VFIO_DEVICE_SET_IRQS, set) != 0)
    return Status::from_errno(errno, "VFIO interrupt");
  return ok_status();
}

void Interrupt::rang() {
  uint64_t count = 0;
  (void)!::read(event_.get(), &count, sizeof(count));
  auto* epoch = reinterpret_cast<std::atomic<uint32_t>*>(mapping_.data());
  epoch->fetch_add(1, std::memory_order_seq_cst);  // partner: Bell::wait
  futex_wake_all(epoch);
}

}  // namespace vgpu::vm
