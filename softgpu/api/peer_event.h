// An event that several processes record and wait for.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "api/ipc/event_page.h"
#include "base/mapping.h"
#include "base/unique_fd.h"
#include "softgpu/api/stream_object.h"
#include "softgpu/exec/shared_pages.h"

namespace vgpu::softgpu {

// Thread-safe. Participants are known by their process' number.
class PeerEvent {
 public:
  // nullptr: the system gives no memory; or the file is not what the secret says.
  static std::shared_ptr<PeerEvent> create();
  static std::shared_ptr<PeerEvent> open(int file, const PagesSecret& secret);

  int file() const { return file_.get(); }
  const PagesSecret& secret() const { return secret_; }
  EventPage& page() const { return *reinterpret_cast<EventPage*>(mapping_.data()); }
  // Whether a record is past; what a process that is gone recorded last is.
  bool passed(uint32_t number) const;

 private:
  bool map(UniqueFd file);

  UniqueFd file_;
  PagesSecret secret_;
  Mapping mapping_;
};

// The event, which has a page, is recorded in `stream`: `at_once` when that is past already.
void announce(const Event& event, Context& context, Stream& stream, bool at_once);
// The same where the record is `point`, wherever that is.
void announce(const Event& event, Context& context, const std::shared_ptr<EventPoint>& point);
// Reached when the newest record is past, whoever made it; null when it is.
std::shared_ptr<EventPoint> newest_record(const Event& event, Context& context);
// The stream waits for the newest record, whoever made it.
void wait_in_stream(const Event& event, Stream& stream);
void wait_here(const Event& event);

}  // namespace vgpu::softgpu
