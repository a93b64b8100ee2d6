// State, and the exported functions' common beginnings.
// SPDX-License-Identifier: Apache-2.0
#include "nvml/library.h"

#include <poll.h>
#include <pthread.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <utility>

#include "base/clock.h"
#include "base/log.h"
#include "nvml/source.h"

namespace vgpu::nvml {
namespace {

SpinMutex* g_fork_mutex = nullptr;

// Another thread may have held it in the parent.
void reset_in_child() { g_fork_mutex->reset_after_fork(); }

}  // namespace

Library& Library::instance() {
  static Library* const library = new Library();  // never destroyed: others may be in it at exit
  return *library;
}

Library::Library() {
  g_fork_mutex = &mutex_;
  ::pthread_atfork(nullptr, nullptr, reset_in_child);
}

nvmlReturn_t Library::initialize() {
  std::lock_guard lock(mutex_);
  const std::shared_ptr<const View> view = refresh();
  if (!view->alive) return NVML_ERROR_DRIVER_NOT_LOADED;
  count_.fetch_add(1, std::memory_order_release);
  return NVML_SUCCESS;
}

nvmlReturn_t Library::shut_down() {
  std::lock_guard lock(mutex_);
  if (count_.load(std::memory_order_relaxed) == 0) return NVML_ERROR_UNINITIALIZED;
  count_.fetch_sub(1, std::memory_order_release);
  return NVML_SUCCESS;
}

nvmlDevice_st* Library::handle_of(const protocol::OwnDevice& device) {
  for (size_t i = 0; i < handle_count_; ++i) {
    nvmlDevice_st& each = handles_[i];
    if (each.uuid == device.uuid && each.pci_bus_id == device.pci_bus_id) return &each;
  }
  if (handle_count_ == kHandlesMax) return nullptr;
  nvmlDevice_st& taken = handles_[handle_count_++];
  taken.uuid = device.uuid;
  taken.pci_bus_id = device.pci_bus_id;
  return &taken;
}

std::shared_ptr<const View> Library::refresh() {
  Result<protocol::FiguresReply> answer = ask_server();
  auto view = std::make_shared<View>();
  view->fetched_ns = monotonic_ns();
  view->alive = answer.ok() && answer->driver_version != 0;
  if (view->alive) {
    view->figures = std::move(answer).value();
    window_.add(view->figures);
    view->shares = window_.shares();
    view->span_ns = window_.span_ns();
  } else {
    log_once("nvml: no figures", LogLevel::kWarn, "NVML: no figures from the server: %s",
             answer.ok() ? "it knows no devices" : answer.status().text().c_str());
    if (view_ != nullptr) {
      view->figures = view_->figures;
      view->shares = view_->shares;
    }
  }
  for (const protocol::OwnDevice& device : view->figures.devices)
    view->handles.push_back(handle_of(device));
  view_ = view;
  return view_;
}

std::shared_ptr<const View> Library::view(bool settled) {
  std::unique_lock lock(mutex_);
  std::shared_ptr<const View> now = view_;
  if (now == nullptr || monotonic_ns() - now->fetched_ns >= kFreshNs) now = refresh();
  if (!settled || !now->alive || now->span_ns >= kSettledNs) return now;
  lock.unlock();
  (void)::poll(nullptr, 0, static_cast<int>((kSettledNs - now->span_ns) / 1'000'000 + 1));
  lock.lock();
  if (view_->span_ns >= kSettledNs) return view_;  // another thread was faster
  return refresh();
}

bool Library::knows(nvmlDevice_t device) {
  std::lock_guard lock(mutex_);
  for (size_t i = 0; i < handle_count_; ++i) {
    if (&handles_[i] == device) return true;
  }
  return false;
}

int Library::cuda_version() {
  std::lock_guard lock(mutex_);
  const std::shared_ptr<const View> now = view_ != nullptr && view_->alive ? view_ : refresh();
  return now->figures.driver_version;
}

Call::Call() {
  Library& library = Library::instance();
  if (library.initialized()) {
    view_ = library.view();
  } else {
    status_ = NVML_ERROR_UNINITIALIZED;
  }
}

int Call::index(nvmlDevice_t device) const {
  const auto at = std::find(view_->handles.begin(), view_->handles.end(), device);
  return at == view_->handles.end() ? -1 : static_cast<int>(at - view_->handles.begin());
}

const protocol::OwnDevice* Call::at(nvmlDevice_t device) const {
  const int place = index(device);
  return place < 0 ? nullptr : &figures().devices[static_cast<size_t>(place)];
}

nvmlReturn_t put_text(const std::string& text, char* to, unsigned int length) {
  if (text.size() + 1 > length) return NVML_ERROR_INSUFFICIENT_SIZE;
  std::memcpy(to, text.c_str(), text.size() + 1);
  return NVML_SUCCESS;
}

nvmlReturn_t not_served(const char* name, const char* why) {
  if (!Library::instance().initialized()) return NVML_ERROR_UNINITIALIZED;
  log_once(name, why == nullptr ? LogLevel::kWarn : LogLevel::kInfo, "%s: not supported%s%s", name,
           why == nullptr ? "" : ": ", why == nullptr ? "" : why);
  return NVML_ERROR_NOT_SUPPORTED;
}

}  // namespace vgpu::nvml
