// Giving work to the driver at once, or to the stream's lane: for the handlers of commands.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SERVER_WORK_H_
#define VGPU_SERVER_WORK_H_

#include <utility>
#include <vector>

#include "server/session.h"

namespace vgpu::server {

// What is in the lane of a stream: one driver call.
class StreamCommand : public LaneCommand {
 public:
  StreamCommand(Session* session, Stream* stream, uint16_t op, const WorkOptions& options)
      : session_(session),
        stream_(stream),
        op_(op),
        weight_(options.weight),
        work_(options.work),
        blob_(options.blob.begin(), options.blob.end()) {}
  void prepare() final;
  uint32_t line() const final;
  void wait_for_turn() final;
  void run() final;

 protected:
  virtual CUresult call(const DriverTable& driver, CUstream stream, const std::byte* blob) = 0;

 private:
  Session* const session_;
  Stream* const stream_;
  const uint16_t op_;
  const uint32_t weight_;
  const DeviceWork work_;
  Admission::Ticket ticket_;
  std::vector<std::byte> blob_;
};

template <typename Call>
class StreamCall final : public StreamCommand {
 public:
  StreamCall(Session* session, Stream* stream, uint16_t op, const WorkOptions& options, Call call)
      : StreamCommand(session, stream, op, options), call_(std::move(call)) {
    bytes = sizeof(*this) + options.blob.size();
  }

 private:
  CUresult call(const DriverTable& driver, CUstream stream, const std::byte* blob) override {
    return call_(driver, stream, blob);
  }
  Call call_;
};

// Programs rely on it that a fill, or a copy that is not to the host, which needs no more than an
// idle engine, is past when another stream's work comes after it, and the guest's call has
// returned.
inline bool is_prompt(const WorkOptions& options) {
  const DeviceWork& work = options.work;
  const bool moves = work.cost_ns != 0 && work.cost_ns != kUnknownCost &&
                     work.engine != scheduler::Engine::kFromDevice;
  return (moves || options.instant) && !options.may_block;
}

template <typename Call>
CUresult Session::issue(Stream* stream, uint16_t op, Call call, const WorkOptions& options) {
  if (stream->ordered) [[unlikely]] {
    if (const CUresult result = order(stream, options); result != CUDA_SUCCESS) return result;
  }
  touch(stream);
  if (!is_prompt(options)) stream->lasts = true;
  stream->last_record = 0;
  Admission::Ticket ticket;
  if (busy_lanes_.empty() && !stream->flow.full() && !options.may_block &&
      admission_.try_admit(stream->context->device, options.work, &ticket)) [[likely]] {
    return issue_now(stream, call, options, ticket);
  }
  return issue_carefully(stream, op, std::move(call), options);
}

template <typename Call>
CUresult Session::issue_now(Stream* stream, Call& call, const WorkOptions& options,
                            const Admission::Ticket& ticket) {
  const CUresult result = admission_.carry_out(
      ticket, [&] { return call(driver(), stream->handle, options.blob.data()); });
  if (stream->flow.count(options.weight)) [[unlikely]]
    stream->flow.checkpoint(driver(), stream->handle);
  return result;
}

template <typename Call>
[[gnu::noinline]] CUresult Session::issue_carefully(Stream* stream, uint16_t op, Call call,
                                                    const WorkOptions& options) {
  std::vector<LanePoint> after;
  Admission::Ticket ticket;
  const Way way = route(stream, options, &after);
  if (way == Way::kNow && admission_.try_admit(stream->context->device, options.work, &ticket))
    return issue_now(stream, call, options, ticket);
  const LanePoint place =
      defer(stream, std::make_unique<StreamCall<Call>>(this, stream, op, options, std::move(call)),
            options, std::move(after));
  if (way != Way::kLater && is_prompt(options)) {
    prompt_ = place;
    place.lane->prompt = place.ticket;
  }
  return CUDA_SUCCESS;
}

}  // namespace vgpu::server

#endif  // VGPU_SERVER_WORK_H_
