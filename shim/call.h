// One command with its checks: what generated functions are made of.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SHIM_CALL_H_
#define VGPU_SHIM_CALL_H_

#include "shim/process.h"

namespace vgpu::shim {

// Used by one thread, on its stack.
template <typename Args>
class Call {
 public:
  explicit Call(Op op) : op_(op), error_(enter(&session_, &context_)) {}
  explicit operator bool() const { return error_ == CUDA_SUCCESS; }
  CUresult error() const { return error_; }

  void blob(const void* data, size_t bytes) {
    blob_ = {static_cast<const std::byte*>(data), bytes};
  }
  CUresult post() {
    return session_->post(context_, op_, args, blob_) != 0 ? CUDA_SUCCESS : session_->lost();
  }
  CUresult wait() {
    protocol::Reply reply;
    return session_->call(context_, op_, args, &reply, blob_);
  }
  template <typename Answer>
  CUresult wait(Answer* answer) {
    return session_->ask(context_, op_, args, answer, blob_);
  }

  Args args{};

 private:
  Op op_;
  Session* session_ = nullptr;
  Context* context_ = nullptr;
  CUresult error_;
  std::span<const std::byte> blob_;
};

}  // namespace vgpu::shim

#endif  // VGPU_SHIM_CALL_H_
