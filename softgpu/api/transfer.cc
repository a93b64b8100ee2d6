// Which thread moves the bytes, and when.
// SPDX-License-Identifier: Apache-2.0
#include "softgpu/api/transfer.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "base/stream_copy.h"
#include "softgpu/api/driver.h"
#include "softgpu/exec/faults.h"

namespace vgpu::softgpu {
namespace {

constexpr uint64_t kStreamBytesMin = 4096;

void move(uint64_t destination, uint64_t source, uint64_t bytes) {
  std::memmove(reinterpret_cast<void*>(destination), reinterpret_cast<const void*>(source), bytes);
}

// An asynchronous copy out of pageable memory behind other work: its bytes are taken now.
CUresult copy_staged(Context& context, uint64_t destination, uint64_t source, uint64_t bytes,
                     CUstream stream) {
  auto staged = std::make_shared<std::vector<uint8_t>>(bytes);
  move(reinterpret_cast<uint64_t>(staged->data()), source, bytes);
  return run_on_stream(context, stream, bytes, Wait::kNo, [destination, bytes, staged] {
    move(destination, reinterpret_cast<uint64_t>(staged->data()), bytes);
  });
}

}  // namespace

void fill_now(uint64_t destination, uint32_t value, uint32_t width, uint64_t count) {
  switch (width) {
    case 1:
      std::memset(reinterpret_cast<void*>(destination), static_cast<int>(value), count);
      break;
    case 2:
      std::fill_n(reinterpret_cast<uint16_t*>(destination), count, static_cast<uint16_t>(value));
      break;
    default:
      std::fill_n(reinterpret_cast<uint32_t*>(destination), count, value);
      break;
  }
}

CUresult run_on_stream(Context& context, CUstream handle, uint64_t bytes, Wait wait,
                       std::function<void()> work) {
  const std::shared_ptr<Stream> stream = find_stream(context, handle);
  if (stream == nullptr) return green::lost_stream(handle);
  if (const CUresult sticky = stream->channel->sticky(); sticky != CUDA_SUCCESS) return sticky;
  GridManagement& management = context.device().management();
  if ((wait == Wait::kYes || bytes <= kInlineBytesMax) &&
      management.nothing_before(*stream->queue)) {
    const MeteredWork metered(current_piece());
    work();
    if (wait == Wait::kYes) context.output().flush();
    return CUDA_SUCCESS;
  }
  auto command = std::make_unique<Command>();
  command->kind = CommandKind::kCopy;
  // Memory may go meanwhile, by another context: then it is as if a kernel had touched it.
  command->work = [work = std::move(work), channel = stream->channel, &management] {
    if (!runs_without_fault(work)) management.fail(channel.get(), CUDA_ERROR_ILLEGAL_ADDRESS);
  };
  const uint64_t ordinal = management.submit(stream->queue, std::move(command));
  if (wait == Wait::kNo) return CUDA_SUCCESS;
  management.wait_for(*stream->queue, ordinal);
  context.output().flush();
  return stream->channel->sticky();
}

PointerSide side_of(Context& context, uint64_t address) {
  const std::optional<MemoryRange> range = context.device().memory().find(address);
  if (!range.has_value()) {
    // Reserved addresses that nothing is mapped at are nobody's host memory.
    uint64_t base = 0, bytes = 0;
    const bool reserved =
        Driver::instance().device().physical().reservation_of(address, &base, &bytes);
    return reserved ? PointerSide::kDevice : PointerSide::kPageable;
  }
  const bool host = range->kind == MemoryKind::kHost || range->kind == MemoryKind::kRegisteredHost;
  return host ? PointerSide::kPinnedHost : PointerSide::kDevice;
}

CUresult copy(Context& context, uint64_t destination, uint64_t source, uint64_t bytes,
              CUstream stream, Wait wait, Reads reads) {
  if (bytes == 0) return CUDA_SUCCESS;
  MemorySpace& memory = context.device().memory();
  const PointerSide to = side_of(context, destination);
  const PointerSide from = side_of(context, source);
  if (to != PointerSide::kPageable && !memory.covers(destination, bytes))
    return CUDA_ERROR_INVALID_VALUE;
  if (from != PointerSide::kPageable && !memory.covers(source, bytes))
    return CUDA_ERROR_INVALID_VALUE;
  if (wait == Wait::kNo && (to == PointerSide::kPageable || takes_now(from, reads))) {
    // The caller may reuse pageable memory as soon as the call returns.
    const std::shared_ptr<Stream> target = find_stream(context, stream);
    if (target == nullptr) return green::lost_stream(stream);
    if (to == PointerSide::kPageable || bytes > kStagingBytesMax ||
        context.device().management().nothing_before(*target->queue)) {
      wait = Wait::kYes;
    } else {
      return copy_staged(context, destination, source, bytes, stream);
    }
  }
  // As a device that writes the host's memory: past the caches, for another core to read.
  if (from == PointerSide::kDevice && to == PointerSide::kPinnedHost && bytes >= kStreamBytesMin) {
    return run_on_stream(context, stream, bytes, wait, [=] {
      stream_copy(reinterpret_cast<void*>(destination), reinterpret_cast<const void*>(source),
                  bytes);
    });
  }
  return run_on_stream(context, stream, bytes, wait, [=] { move(destination, source, bytes); });
}

CUresult fill(Context& context, uint64_t destination, uint32_t value, uint32_t width,
              uint64_t count, CUstream stream, Wait wait) {
  if (count == 0) return CUDA_SUCCESS;
  if (destination % width != 0 || count > UINT64_MAX / width) return CUDA_ERROR_INVALID_VALUE;
  if (!context.device().memory().covers(destination, count * width))
    return CUDA_ERROR_INVALID_VALUE;
  const std::shared_ptr<Stream> target = find_stream(context, stream);
  if (target == nullptr || target->context != &context) return green::lost_stream(stream);
  return run_on_stream(context, stream, count * width, wait,
                       [=] { fill_now(destination, value, width, count); });
}

}  // namespace vgpu::softgpu
