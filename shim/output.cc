// Fetching text and writing it where the program's own text goes.
// SPDX-License-Identifier: Apache-2.0
#include "shim/output.h"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <new>

#include "shim/session.h"

namespace vgpu::shim {
namespace {

constexpr uint64_t kPieceBytes = 64 * 1024;

}  // namespace

void Output::show(Session& session, bool wait) {
  protocol::SemaphoreReader& semaphores = session.channel().semaphores();
  const auto more = [&] {
    return semaphores.value(protocol::Semaphore::kOutput) > passed_.load(std::memory_order_relaxed);
  };
  if (!more() || session.state() != CUDA_SUCCESS) return;
  std::unique_lock lock(mutex_, std::defer_lock);
  if (wait) {
    lock.lock();
  } else if (!lock.try_lock()) {
    return;  // who has it may wait for room
  }
  bool some = true;
  while (some && more()) {
    some = show_some(session, 0, wait);
    some = show_some(session, 1, wait) || some;
  }
}

// One piece of one kind. Copied out before it is written: standard output may be slow, and the
// channel's memory is everybody's.
bool Output::show_some(Session& session, uint32_t kind, bool wait) {
  const std::unique_ptr<char[]> text(new (std::nothrow) char[kPieceBytes]);
  const uint64_t room = std::min<uint64_t>(kPieceBytes, session.channel().down_slab().size() / 4);
  const protocol::Staging::Piece piece = session.channel().allocate_down(room, wait);
  if (!piece.ok()) return false;
  wire::OutputFetchArgs args;
  args.slab_offset = piece.offset;
  args.slab_bytes = room;
  args.kind = kind;
  wire::OutputFetchReply answer;
  const CUresult result = session.ask(nullptr, Op::kOutputFetch, args, &answer);
  const uint64_t bytes =
      result == CUDA_SUCCESS && text != nullptr && answer.bytes <= room ? answer.bytes : 0;
  if (bytes != 0)
    std::copy_n(reinterpret_cast<const char*>(session.channel().down_slab().data()) + piece.offset,
                bytes, text.get());
  session.channel().release_down(piece);
  if (result == CUDA_SUCCESS) passed_.store(answer.passed, std::memory_order_relaxed);
  if (bytes != 0) std::fwrite(text.get(), 1, bytes, kind == 0 ? stdout : stderr);
  return bytes != 0;
}

}  // namespace vgpu::shim
