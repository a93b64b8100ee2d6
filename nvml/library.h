// The library's one state: how often it was initialised, what the server last said, handles.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_NVML_LIBRARY_H_
#define VGPU_NVML_LIBRARY_H_

#include <nvml.h>

#include <array>
#include <atomic>
#include <memory>
#include <vector>

#include "base/spin_mutex.h"
#include "base/status.h"
#include "nvml/window.h"
#include "protocol/session/figures.h"

// What a handle points to. Handles stay what they are as long as the process lives.
struct nvmlDevice_st {
  std::array<uint8_t, 16> uuid{};
  std::string pci_bus_id;
};

namespace vgpu::nvml {

inline constexpr uint64_t kFreshNs = 100'000'000;    // so long an answer of the server is good for
inline constexpr uint64_t kSettledNs = 100'000'000;  // the shortest window that says something
inline constexpr size_t kHandlesMax = 64;  // devices seen in a process's life; more are not shown

// One answer of the server. Never changes.
struct View {
  protocol::FiguresReply figures;
  std::vector<TimeShare> shares;        // by place in figures.guests
  std::vector<nvmlDevice_st*> handles;  // by place in figures.devices
  uint64_t span_ns = 0;                 // of the shares
  uint64_t fetched_ns = 0;
  bool alive = false;  // false: the server did not answer, and these are its last figures
};

// Thread-safe. The only global of the library, never destroyed. In the child of a fork it goes on
// with what the parent knew.
class Library {
 public:
  static Library& instance();

  // Counted, as NVML counts. NVML_ERROR_DRIVER_NOT_LOADED: no server answers.
  nvmlReturn_t initialize();
  nvmlReturn_t shut_down();
  bool initialized() const { return count_.load(std::memory_order_acquire) > 0; }

  // What the server says now, or said at most kFreshNs ago. Null only before initialisation.
  // `settled`: with shares over kSettledNs at least, for which it may wait once.
  std::shared_ptr<const View> view(bool settled = false);

  // Whether this is a handle that was given out.
  bool knows(nvmlDevice_t device);

  // The version of the CUDA driver behind the server; 0: nobody says.
  int cuda_version();

 private:
  Library();
  std::shared_ptr<const View> refresh();  // with the mutex held
  nvmlDevice_st* handle_of(const protocol::OwnDevice& device);

  SpinMutex mutex_;
  std::atomic<int> count_{0};
  std::shared_ptr<const View> view_;  // under mutex_, as what follows
  Window window_;
  std::array<nvmlDevice_st, kHandlesMax> handles_;
  size_t handle_count_ = 0;
};

// What an exported function starts with.
class Call {
 public:
  Call();
  nvmlReturn_t status() const { return status_; }
  bool knows(nvmlDevice_t device) const { return Library::instance().knows(device); }
  // The server answers: figures are of now.
  bool alive() const { return view_->alive; }
  const View& view() const { return *view_; }
  const protocol::FiguresReply& figures() const { return view_->figures; }
  // Its place among the devices; -1: the caller's guests no longer have it.
  int index(nvmlDevice_t device) const;
  // The same as an answer: null when it is gone.
  const protocol::OwnDevice* at(nvmlDevice_t device) const;

 private:
  nvmlReturn_t status_ = NVML_SUCCESS;
  std::shared_ptr<const View> view_;
};

// Copies a text with its end. NVML_ERROR_INSUFFICIENT_SIZE when it does not fit.
nvmlReturn_t put_text(const std::string& text, char* to, unsigned int length);

// A function that is exported but not served: NVML_ERROR_NOT_SUPPORTED, and one log line, with the
// reason where there is one.
nvmlReturn_t not_served(const char* name, const char* why);

}  // namespace vgpu::nvml

#endif  // VGPU_NVML_LIBRARY_H_
