// What a session counts for those who look at it.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SERVER_FIGURES_H_
#define VGPU_SERVER_FIGURES_H_

#include "server/worker_link.h"

namespace vgpu::server {

// Each figure is written by one thread, the consumer, by an addition and a store, but for one.
class Figures {
 public:
  // `page` null: nobody looks. It stays borrowed.
  explicit Figures(WorkerPage* page) : page_(page != nullptr ? page : &own_) {}
  Figures(const Figures&) = delete;
  Figures& operator=(const Figures&) = delete;

  // Of a graph those of its conditional nodes' bodies once, however often these run.
  void kernels(uint64_t count) { add(&page_->kernels, count); }
  void copied_to(uint64_t bytes) { add(&page_->copied_bytes[0], bytes); }
  void copied_from(uint64_t bytes) { add(&page_->copied_bytes[1], bytes); }
  // Any thread.
  void refused_allocation() { page_->refused_allocations.fetch_add(1, std::memory_order_relaxed); }

 private:
  // relaxed: figures for people; nothing is ordered by them.
  static void add(std::atomic<uint64_t>* figure, uint64_t count) {
    figure->store(figure->load(std::memory_order_relaxed) + count, std::memory_order_relaxed);
  }

  WorkerPage own_{};
  WorkerPage* const page_;
};

}  // namespace vgpu::server

#endif  // VGPU_SERVER_FIGURES_H_
