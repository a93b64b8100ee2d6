// Copies: to whichever server has the memory; between two servers through this process, in pieces.
// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>
#include <cudaProfiler.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "api/default_stream.h"
#include "driver_functions.h"
#include "router/place.h"
#include "router/transfers.h"

namespace vgpu::driver {

using router::by_current;
using router::by_stream;
using router::Memory;
using router::memory_at;
using router::Place;
using router::Server;

namespace {

constexpr size_t kPieceBytes = size_t{4} << 20;

// One end of a copy: memory of a server's device, or host memory.
struct End {
  Server* server = nullptr;  // null: host
  CUcontext context = nullptr;
  uint64_t address = 0;
};

End end_at(uint64_t address) {
  const Memory memory = memory_at(address);
  if (!memory.on_device()) return {nullptr, nullptr, address};
  return {memory.server, memory.context, address};
}

// A context to copy in and a stream of our own there, for the transfers' thread.
class Lane {
 public:
  explicit Lane(const End& end) : server_(end.server) {
    if (server_ == nullptr) return;
    context_ = server_->library->some_context(end.context);
    result_ = context_ == nullptr ? CUDA_ERROR_INVALID_CONTEXT
                                  : server_->driver.cuCtxSetCurrent(context_);
    if (result_ == CUDA_SUCCESS) result_ = router::transfers().borrow(*server_, context_, &stream_);
  }
  ~Lane() {
    if (stream_ != nullptr) router::transfers().give_back(*server_, context_, stream_);
  }
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;
  CUresult result() const { return result_; }
  // This thread has one context of a server current at a time, and both ends may be one server's.
  CUresult read(void* to, uint64_t from, size_t bytes) {
    if (server_ == nullptr) return copy(to, reinterpret_cast<const void*>(from), bytes);
    CUresult r = server_->driver.cuMemcpyDtoHAsync_v2(to, from, bytes, stream_);
    if (r == CUDA_SUCCESS) r = server_->driver.cuStreamSynchronize(stream_);
    return r;
  }
  CUresult write(uint64_t to, const void* from, size_t bytes) {
    if (server_ == nullptr) return copy(reinterpret_cast<void*>(to), from, bytes);
    return server_->driver.cuMemcpyHtoDAsync_v2(to, from, bytes, stream_);
  }
  CUresult finish() {
    return server_ == nullptr ? CUDA_SUCCESS : server_->driver.cuStreamSynchronize(stream_);
  }

 private:
  static CUresult copy(void* to, const void* from, size_t bytes) {
    std::memcpy(to, from, bytes);
    return CUDA_SUCCESS;
  }
  Server* server_;
  CUcontext context_ = nullptr;
  CUstream stream_ = nullptr;
  CUresult result_ = CUDA_SUCCESS;
};

// On the transfers' thread. What is written of one piece goes on while the next is read.
CUresult copy_through(const End& to, const End& from, size_t bytes) {
  Lane source(from), target(to);
  if (source.result() != CUDA_SUCCESS) return source.result();
  if (target.result() != CUDA_SUCCESS) return target.result();
  std::vector<std::byte> piece(std::min(bytes, kPieceBytes));
  for (size_t done = 0; done < bytes; done += piece.size()) {
    const size_t part = std::min(piece.size(), bytes - done);
    if (CUresult r = source.read(piece.data(), from.address + done, part); r != CUDA_SUCCESS)
      return r;
    if (CUresult r = target.write(to.address + done, piece.data(), part); r != CUDA_SUCCESS)
      return r;
  }
  return target.finish();
}

// Whether the ends are memory from beginning to end: an overrun is refused before it is sent.
CUresult check_end(const End& end, size_t bytes) {
  if (end.server == nullptr) return CUDA_SUCCESS;
  CUdeviceptr base = 0;
  size_t size = 0;
  if (!router::visit(end.server, end.context)) return CUDA_ERROR_INVALID_VALUE;
  const CUresult r = end.server->driver.cuMemGetAddressRange_v2(&base, &size, end.address);
  if (r != CUDA_SUCCESS || bytes > size - (end.address - base)) return CUDA_ERROR_INVALID_VALUE;
  return CUDA_SUCCESS;
}

// In the order of `stream`, which need be of neither end's server.
CUresult submit(const End& to, const End& from, size_t bytes, CUstream stream) {
  if (stream == nullptr) stream = default_stream();
  const Place at = by_stream(stream);
  if (at.result != CUDA_SUCCESS) return at.result;
  if (bytes == 0) return CUDA_SUCCESS;
  if (CUresult r = check_end(to, bytes); r != CUDA_SUCCESS) return r;
  if (CUresult r = check_end(from, bytes); r != CUDA_SUCCESS) return r;
  std::shared_ptr<std::vector<std::byte>> held;
  const bool pageable = from.server == nullptr && memory_at(from.address).server == nullptr;
  if (pageable) {  // the program may write to it again when this returns
    const auto* begin = reinterpret_cast<const std::byte*>(from.address);
    held = std::make_shared<std::vector<std::byte>>(begin, begin + bytes);
  }
  const CUresult result =
      router::transfers().submit(*at.server, stream, [to, from, bytes, held]() -> CUresult {
        End source = from;
        if (held != nullptr) source.address = reinterpret_cast<uint64_t>(held->data());
        return copy_through(to, source, bytes);
      });
  if (result != CUDA_SUCCESS || to.server != nullptr) return result;
  return driver::cuStreamSynchronize(stream);  // what host memory gets is there when this returns
}

// Between two servers, waited for: behind the work of the default streams of both contexts.
CUresult between(const End& to, const End& from, size_t bytes) {
  if (router::t_current == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  for (const End* end : {&from, &to}) {
    if (CUresult r = check_end(*end, bytes); r != CUDA_SUCCESS) return r;
    if (end->server == router::t_current || per_thread_default) continue;
    (void)router::visit(end->server, end->context);
    if (CUresult r = end->server->driver.cuStreamSynchronize(nullptr); r != CUDA_SUCCESS) return r;
  }
  const CUresult result = submit(to, from, bytes, nullptr);
  return result != CUDA_SUCCESS ? result : driver::cuStreamSynchronize(default_stream());
}

// A copy of pageable memory takes a place in the staging memory of its server and keeps it until
// its stream is there. The thread that the stream may be waiting for needs places, too: so while it
// has anything to do, this thread waits before it takes one.
CUresult catch_up(const Place& at, CUstream stream, const End& host_end) {
  if (host_end.server != nullptr || !router::transfers().busy()) [[likely]]
    return CUDA_SUCCESS;
  if (memory_at(host_end.address).server == at.server) return CUDA_SUCCESS;  // copied in place
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  const CUresult r = at->cuStreamIsCapturing(stream, &status);
  if (r != CUDA_SUCCESS || status != CU_STREAM_CAPTURE_STATUS_NONE) return r;
  return at->cuStreamSynchronize(stream);
}

// The server that a copy between these can be left to; null: none can.
Server* only_server(const End& to, const End& from, Server* otherwise) {
  if (to.server != nullptr && from.server != nullptr && to.server != from.server) return nullptr;
  if (to.server != nullptr) return to.server;
  return from.server != nullptr ? from.server : otherwise;
}

// `plain` is the function of a server's, called with its Place.
template <typename Plain>
CUresult copy(const End& to, const End& from, size_t bytes, const Plain& plain) {
  const Place here = by_current();
  if (here.result != CUDA_SUCCESS) return here.result;
  Server* server = only_server(to, from, here.server);
  if (server == nullptr) return between(to, from, bytes);
  if (!router::visit(server, to.server != nullptr ? to.context : from.context) &&
      router::t_current != nullptr)
    return CUDA_ERROR_INVALID_VALUE;  // memory of a context that has ended, and no other is there
  const Place at{CUDA_SUCCESS, server};
  const End& other = to.server != nullptr ? from : to;
  if (CUresult r = catch_up(at, default_stream(), other); r != CUDA_SUCCESS) return r;
  return plain(at);
}

template <typename Plain>
CUresult copy_async(const End& to, const End& from, size_t bytes, CUstream stream,
                    const Plain& plain) {
  const Place at = by_stream(stream);
  if (at.result != CUDA_SUCCESS) return at.result;
  if (only_server(to, from, at.server) == at.server) {
    const CUresult r = catch_up(at, stream, to.server != nullptr ? from : to);
    return r != CUDA_SUCCESS ? r : plain(at);
  }
  return submit(to, from, bytes, stream);
}

End host(const void* pointer) { return {nullptr, nullptr, reinterpret_cast<uint64_t>(pointer)}; }

bool attached() { return router::Servers::attached() != nullptr; }

}  // namespace

CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  if (!attached()) return CUDA_ERROR_NOT_INITIALIZED;
  return copy(end_at(to), end_at(from), bytes, [&](const Place& at) {
    return (per_thread_default ? at->cuMemcpy_ptds : at->cuMemcpy)(to, from, bytes);
  });
}

CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  if (!attached()) return CUDA_ERROR_NOT_INITIALIZED;
  return copy(end_at(to), end_at(from), bytes, [&](const Place& at) {
    return (per_thread_default ? at->cuMemcpyDtoD_v2_ptds : at->cuMemcpyDtoD_v2)(to, from, bytes);
  });
}

CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  if (!attached()) return CUDA_ERROR_NOT_INITIALIZED;
  return copy_async(end_at(to), end_at(from), bytes, stream,
                    [&](const Place& at) { return at->cuMemcpyAsync(to, from, bytes, stream); });
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  if (!attached()) return CUDA_ERROR_NOT_INITIALIZED;
  return copy_async(end_at(to), end_at(from), bytes, stream, [&](const Place& at) {
    return at->cuMemcpyDtoDAsync_v2(to, from, bytes, stream);
  });
}

CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void* from, size_t bytes) {
  if (!attached()) return CUDA_ERROR_NOT_INITIALIZED;
  return copy(end_at(to), host(from), bytes, [&](const Place& at) {
    return (per_thread_default ? at->cuMemcpyHtoD_v2_ptds : at->cuMemcpyHtoD_v2)(to, from, bytes);
  });
}

CUresult cuMemcpyDtoH_v2(void* to, CUdeviceptr from, size_t bytes) {
  if (!attached()) return CUDA_ERROR_NOT_INITIALIZED;
  return copy(host(to), end_at(from), bytes, [&](const Place& at) {
    return (per_thread_default ? at->cuMemcpyDtoH_v2_ptds : at->cuMemcpyDtoH_v2)(to, from, bytes);
  });
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void* from, size_t bytes, CUstream stream) {
  if (!attached()) return CUDA_ERROR_NOT_INITIALIZED;
  return copy_async(end_at(to), host(from), bytes, stream, [&](const Place& at) {
    return at->cuMemcpyHtoDAsync_v2(to, from, bytes, stream);
  });
}

CUresult cuMemcpyDtoHAsync_v2(void* to, CUdeviceptr from, size_t bytes, CUstream stream) {
  if (!attached()) return CUDA_ERROR_NOT_INITIALIZED;
  return copy_async(host(to), end_at(from), bytes, stream, [&](const Place& at) {
    return at->cuMemcpyDtoHAsync_v2(to, from, bytes, stream);
  });
}

}  // namespace vgpu::driver
