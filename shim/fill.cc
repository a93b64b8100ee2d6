// One way for all fills: where the memory is decides who fills it.
// SPDX-License-Identifier: Apache-2.0
#include "shim/fill.h"

#include <climits>
#include <cstring>

#include "api/default_stream.h"
#include "shim/capture_hooks.h"

namespace vgpu::shim {
namespace {

// Registered memory that the device does not reach: filled here, in the stream's order.
CUresult fill_here(Session& session, Context* context, const StreamRef& stream, const Fill& f) {
  if (CUresult r = synchronize_stream(session, context, stream); r != CUDA_SUCCESS) return r;
  for (uint64_t y = 0; y < f.height; ++y) {
    for (uint64_t i = 0; i < f.count; ++i)
      std::memcpy(reinterpret_cast<void*>(f.to + y * f.pitch + i * f.width), &f.value, f.width);
  }
  return CUDA_SUCCESS;
}

CUresult post_row(Session& session, Context* context, const StreamRef& stream, const Fill& f) {
  wire::FillArgs args;
  args.destination = f.to;
  args.count = f.count;
  args.stream = stream.id;
  args.value = f.value;
  args.width = f.width;
  return session.post(context, Op::kFill, args, {}, &stream) != 0 ? CUDA_SUCCESS : session.lost();
}

CUresult post_rows(Session& session, Context* context, const StreamRef& stream, const Fill& f,
                   uint64_t bytes) {
  wire::RectFillArgs args;
  args.destination = f.to;
  args.pitch = f.pitch;
  args.count = f.count;
  args.height = f.height;
  args.bytes = bytes;
  args.stream = stream.id;
  args.value = f.value;
  args.width = f.width;
  return session.post(context, Op::kRectFill, args, {}, &stream) != 0 ? CUDA_SUCCESS
                                                                      : session.lost();
}

// Bytes of the rows and of all that they span; false when that is no box.
bool measure(const Fill& f, uint64_t* bytes, uint64_t* span) {
  uint64_t row = 0, last = 0;
  return f.to % f.width == 0 && f.pitch % f.width == 0 && f.pitch <= INT_MAX &&
         !__builtin_mul_overflow(f.count, uint64_t{f.width}, &row) &&
         (f.height == 1 || f.pitch >= row) &&
         !__builtin_mul_overflow(f.height - 1, f.pitch, &last) &&
         !__builtin_add_overflow(last, row, span) && !__builtin_mul_overflow(row, f.height, bytes);
}

}  // namespace

CUresult fill(Fill f, CUstream handle, FillEnd end) {
  Session* session;
  Context* context;
  if (CUresult r = enter(&session, &context); r != CUDA_SUCCESS) return r;
  StreamRef stream;
  if (handle == nullptr) handle = driver::default_stream();
  if (CUresult r = find_stream(*session, context, handle, &stream); r != CUDA_SUCCESS) return r;
  if (graph::watching()) [[unlikely]] {
    const CUDA_MEMSET_NODE_PARAMS_v2 params = {f.to,    f.pitch,  f.value, f.width,
                                               f.count, f.height, nullptr};
    const auto taken = end == FillEnd::kWaits
                           ? refuse_waiting(*context, stream)
                           : graph::capture_fill(key_of(*context, stream), params);
    if (taken.has_value()) return *taken;
  }
  if (f.count == 0 || f.height == 0) return CUDA_SUCCESS;
  if (f.height == 1) f.pitch = 0;
  uint64_t bytes = 0, span = 0;
  if (!measure(f, &bytes, &span)) return CUDA_ERROR_INVALID_VALUE;
  Allocation allocation;
  HostBlock block;
  if (session->memory().find(f.to, &allocation)) {
    if (span > allocation.bytes - (f.to - allocation.address)) return CUDA_ERROR_INVALID_VALUE;
  } else if (session->host_memory().find(f.to, &block)) {
    if (span > block.bytes - (f.to - block.address)) return CUDA_ERROR_INVALID_VALUE;
    if (!block.in_place) return fill_here(*session, context, stream, f);
  } else {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const bool waits = end == FillEnd::kWaits && (block.in_place || session->shared().any.load());
  const CUresult result = f.height == 1 ? post_row(*session, context, stream, f)
                                        : post_rows(*session, context, stream, f, bytes);
  return result == CUDA_SUCCESS && waits ? synchronize_stream(*session, context, stream) : result;
}

}  // namespace vgpu::shim
