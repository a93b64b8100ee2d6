// What the caller's guests use: memory against their quota, time, processes.
// SPDX-License-Identifier: Apache-2.0
#include <time.h>

#include <algorithm>
#include <cmath>

#include "nvml/library.h"
#include "nvml_functions.h"

namespace vgpu::nvml {
namespace {

using protocol::OwnDevice;
using protocol::OwnGuest;
using protocol::OwnUse;

constexpr unsigned int kNoInstance = 0xffffffff;  // of MIG

unsigned int percent(double part) {
  return static_cast<unsigned int>(std::lround(std::min(part, 1.0) * 100));
}

// Calls visit(place of the guest, guest, its use) for those that have this device.
template <typename Visit>
void for_each_use(const View& view, int device, Visit visit) {
  const auto& guests = view.figures.guests;
  for (size_t i = 0; i < guests.size(); ++i) {
    for (const OwnUse& use : guests[i].uses) {
      if (use.device == device) visit(i, guests[i], use);
    }
  }
}

struct Process {
  unsigned int pid;
  unsigned long long used_bytes;
};

// Each process once, although it may have had a session before and its worker is still ending.
std::vector<Process> processes(const Call& call, nvmlDevice_t device) {
  std::vector<Process> found;
  for_each_use(call.view(), call.index(device),
               [&](size_t, const OwnGuest& guest, const OwnUse& use) {
                 if (guest.pid <= 0) return;  // it has gone, and its session will
                 const auto pid = static_cast<unsigned int>(guest.pid);
                 const auto at = std::find_if(found.begin(), found.end(),
                                              [&](const Process& p) { return p.pid == pid; });
                 if (at != found.end()) {
                   at->used_bytes += use.used_bytes;
                 } else {
                   found.push_back({pid, use.used_bytes});
                 }
               });
  return found;
}

void fill(const Process& process, nvmlProcessInfo_v1_t* info) {
  info->pid = process.pid;
  info->usedGpuMemory = process.used_bytes;
}

void fill(const Process& process, nvmlProcessInfo_t* info) {
  *info = {process.pid, process.used_bytes, kNoInstance, kNoInstance};
}

void fill(const Process& process, nvmlProcessDetail_v1_t* info) {
  *info = {process.pid, process.used_bytes, kNoInstance, kNoInstance, 0};
}

// *count: in how many there is room for, out how many there are.
template <typename Info>
nvmlReturn_t put_processes(const std::vector<Process>& found, unsigned int* count, Info* infos) {
  const unsigned int room = *count;
  *count = static_cast<unsigned int>(found.size());
  if (found.empty()) return NVML_SUCCESS;
  if (room < found.size()) return NVML_ERROR_INSUFFICIENT_SIZE;
  if (infos == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  for (size_t i = 0; i < found.size(); ++i) fill(found[i], &infos[i]);
  return NVML_SUCCESS;
}

nvmlReturn_t no_processes(unsigned int* count) {
  *count = 0;
  return NVML_SUCCESS;
}

}  // namespace

namespace answer {

nvmlReturn_t nvmlDeviceGetMemoryInfo(const Call& call, nvmlDevice_t handle, nvmlMemory_t* memory) {
  const OwnDevice* device = call.at(handle);
  if (device == nullptr) return NVML_ERROR_GPU_IS_LOST;
  memory->total = device->memory_bytes;
  memory->used = std::min(device->used_bytes, device->memory_bytes);
  memory->free = memory->total - memory->used;
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(const Call& call, nvmlDevice_t handle,
                                        nvmlMemory_v2_t* memory) {
  if (memory->version != nvmlMemory_v2) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
  nvmlMemory_t plain;
  const nvmlReturn_t result = nvmlDeviceGetMemoryInfo(call, handle, &plain);
  if (result != NVML_SUCCESS) return result;
  memory->total = plain.total;
  memory->free = plain.free;
  memory->used = plain.used;
  memory->reserved = 0;  // what the driver itself needs is not part of a quota
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetUtilizationRates(const Call& call, nvmlDevice_t device,
                                           nvmlUtilization_t* utilization) {
  const std::shared_ptr<const View> view = Library::instance().view(/*settled=*/true);
  const auto at = std::find(view->handles.begin(), view->handles.end(), device);
  if (!view->alive || at == view->handles.end() || !call.knows(device))
    return NVML_ERROR_GPU_IS_LOST;
  double compute = 0, copies = 0;
  for_each_use(*view, static_cast<int>(at - view->handles.begin()),
               [&](size_t place, const OwnGuest&, const OwnUse&) {
                 compute += view->shares[place].compute;
                 copies += view->shares[place].copies;
               });
  utilization->gpu = percent(compute);
  utilization->memory = percent(copies);
  return NVML_SUCCESS;
}

// One sample for each process, of now. None when the caller has seen it: NVML_ERROR_NOT_FOUND, as
// natively when nothing has run since.
nvmlReturn_t nvmlDeviceGetProcessUtilization(const Call&, nvmlDevice_t device,
                                             nvmlProcessUtilizationSample_t* samples,
                                             unsigned int* count, unsigned long long last_seen) {
  const std::shared_ptr<const View> view = Library::instance().view(/*settled=*/true);
  const auto at = std::find(view->handles.begin(), view->handles.end(), device);
  if (!view->alive || at == view->handles.end()) return NVML_ERROR_GPU_IS_LOST;
  timespec wall;
  ::clock_gettime(CLOCK_REALTIME, &wall);
  const auto now_us = static_cast<unsigned long long>(wall.tv_sec) * 1'000'000 +
                      static_cast<unsigned long long>(wall.tv_nsec) / 1'000;
  std::vector<nvmlProcessUtilizationSample_t> found;
  for_each_use(*view, static_cast<int>(at - view->handles.begin()),
               [&](size_t place, const OwnGuest& guest, const OwnUse&) {
                 if (guest.pid <= 0) return;
                 found.push_back({static_cast<unsigned int>(guest.pid), now_us,
                                  percent(view->shares[place].compute),
                                  percent(view->shares[place].copies), 0, 0});
               });
  if (found.empty() || last_seen >= now_us) return NVML_ERROR_NOT_FOUND;
  const unsigned int room = *count;
  *count = static_cast<unsigned int>(found.size());
  if (samples == nullptr || room < found.size()) return NVML_ERROR_INSUFFICIENT_SIZE;
  std::copy(found.begin(), found.end(), samples);
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses(const Call& call, nvmlDevice_t device,
                                                  unsigned int* count,
                                                  nvmlProcessInfo_v1_t* infos) {
  return put_processes(processes(call, device), count, infos);
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(const Call& call, nvmlDevice_t device,
                                                     unsigned int* count,
                                                     nvmlProcessInfo_t* infos) {
  return put_processes(processes(call, device), count, infos);
}

nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses(const Call&, nvmlDevice_t, unsigned int* count,
                                                   nvmlProcessInfo_v1_t*) {
  return no_processes(count);
}

nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v3(const Call&, nvmlDevice_t,
                                                      unsigned int* count, nvmlProcessInfo_t*) {
  return no_processes(count);
}

nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses(const Call&, nvmlDevice_t, unsigned int* count,
                                                     nvmlProcessInfo_v1_t*) {
  return no_processes(count);
}

nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses_v3(const Call&, nvmlDevice_t,
                                                        unsigned int* count, nvmlProcessInfo_t*) {
  return no_processes(count);
}

nvmlReturn_t nvmlDeviceGetRunningProcessDetailList(const Call& call, nvmlDevice_t device,
                                                   nvmlProcessDetailList_t* list) {
  constexpr unsigned int kModeCompute = 0, kModeMps = 2;
  if (list->version != nvmlProcessDetailList_v1) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
  if (list->mode > kModeMps) return NVML_ERROR_INVALID_ARGUMENT;
  if (list->mode != kModeCompute) return no_processes(&list->numProcArrayEntries);
  return put_processes(processes(call, device), &list->numProcArrayEntries, list->procArray);
}

}  // namespace answer
}  // namespace vgpu::nvml
