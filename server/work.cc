// Which way work for a stream takes: straight to the driver, or through lanes.
// SPDX-License-Identifier: Apache-2.0
#include "server/work.h"

#include <algorithm>

namespace vgpu::server {
namespace {

constexpr int64_t kAnyRoom = int64_t{1} << 62;

}  // namespace

void Session::free_idle_lanes() {
  std::erase_if(busy_lanes_, [this](Lane* lane) {
    if (!lane->idle()) return false;
    lane->listed = false;
    if (lane->abandoned) lanes_.give(lane);
    return true;
  });
}

// Lanes keep the order that the driver would keep: within the stream, between the legacy stream and
// the blocking streams of its context, and behind an event that is still to be recorded.
Session::Way Session::route(Stream* stream, const WorkOptions& options,
                            std::vector<LanePoint>* after) {
  free_idle_lanes();
  // Each of these waits for the one before it, in whatever lane that is.
  const auto is_prompt = [](const LanePoint& point) { return point.ticket <= point.lane->prompt; };
  for (Lane* lane : busy_lanes_) {
    const bool ordered = stream->blocking && lane->blocking && (stream->legacy || lane->legacy);
    if (ordered && lane->context == stream->context && lane != stream->lane) {
      after->push_back(lane->end());
    }
  }
  if (!prompt_.passed() && prompt_.lane != stream->lane) after->push_back(prompt_);
  if (!options.after.passed() && options.after.lane != stream->lane) {
    after->push_back(options.after);
  }
  const bool in_lane = waits_in_lane(*stream);
  if (!std::all_of(after->begin(), after->end(), is_prompt)) return Way::kLater;
  if (in_lane) {
    // Its thread has the stream's account, and waits where that is full: for work of the stream,
    // which may wait for anything.
    if (!is_prompt(stream->lane->end()) || stream->lane->room < options.weight) return Way::kLater;
  } else if (stream->flow.full() && !stream->flow.reclaim(driver())) {
    return Way::kLater;
  }
  return after->empty() && !in_lane && !options.may_block ? Way::kNow : Way::kSoon;
}

// Whether the driver has work that `stream` must wait for, and of which nobody knows when it ends.
bool Session::waits_for_work(Stream* stream) {
  const auto runs = [this](Stream* each) {
    if (each->lasts && !waits_in_lane(*each) &&
        driver().cuStreamQuery(each->handle) == CUDA_SUCCESS) {
      each->lasts = false;
    }
    return each->lasts;
  };
  const Context& context = *stream->context;
  return runs(stream) ||
         !std::all_of(context.orphans.begin(), context.orphans.end(),
                      [this](const MarkRef& mark) { return past(*mark); }) ||
         std::any_of(context.dirty.begin(), context.dirty.end(), [&](Stream* each) {
           const bool ordered =
               stream->blocking && each->blocking && (stream->legacy || each->legacy);
           return ordered && each != stream && runs(each);
         });
}

LanePoint Session::defer(Stream* stream, std::unique_ptr<LaneCommand> command,
                         const WorkOptions& options, std::vector<LanePoint> after) {
  if (stream->lane == nullptr) {
    Lane* lane = lanes_.take();
    lane->context = stream->context;
    lane->blocking = stream->blocking;
    lane->legacy = stream->legacy;
    lane->hold_word = stream->hold_word;
    lane->abandoned = stream->ending;
    stream->lane = lane;
  }
  Lane* lane = stream->lane;
  if (lane->idle()) lane->room = waits_for_work(stream) ? stream->flow.room() : kAnyRoom;
  lane->room -= options.weight;
  if (!lane->listed) {
    lane->listed = true;
    busy_lanes_.push_back(lane);
  }
  command->after = std::move(after);
  const LanePoint place = lanes_.post(lane, std::move(command));
  if (options.place != nullptr) *options.place = place;
  return place;
}

void Session::abandon_lane(Lane* lane) {
  if (lane == nullptr || lane->abandoned) return;
  lane->abandoned = true;
  if (!lane->listed) lanes_.give(lane);
}

std::vector<LanePoint> Session::lane_ends(const Context* context) {
  std::vector<LanePoint> ends;
  free_idle_lanes();
  for (Lane* lane : busy_lanes_) {
    if (context == nullptr || lane->context == context) ends.push_back(lane->end());
  }
  return ends;
}

void StreamCommand::prepare() {
  (void)session_->driver().cuCtxSetCurrent(stream_->context->handle);
  stream_->flow.wait_for_room(session_->driver());
}

uint32_t StreamCommand::line() const {
  return work_.cost_ns == 0
             ? kNoLine
             : stream_->context->device * scheduler::kEngines + static_cast<uint32_t>(work_.engine);
}

// On this thread: the consumer goes on, and what others ask of the stream is answered.
void StreamCommand::wait_for_turn() {
  session_->admission().wait(stream_->context->device, work_, &ticket_);
}

void StreamCommand::run() {
  if (session_->abandons(work_)) return;
  const DriverTable& driver = session_->driver();
  (void)driver.cuCtxSetCurrent(stream_->context->handle);
  const CUresult result = session_->admission().carry_out(
      ticket_, [&] { return call(driver, stream_->handle, blob_.data()); });
  if (result != CUDA_SUCCESS) session_->failed_call(op_, stream_->context, result);
  if (stream_->flow.count(weight_)) stream_->flow.checkpoint(driver, stream_->handle);
}

}  // namespace vgpu::server
