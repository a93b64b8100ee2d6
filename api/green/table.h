// The table of green contexts, and whose their streams are.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <mutex>
#include <unordered_map>

#include "api/green/contexts.h"

namespace vgpu::green {

struct Table {
  std::mutex mutex;  // guards what follows; entries stay where they are
  std::deque<Green> all;
  std::unordered_map<CUstream, Green*> owners;
};

// Never destroyed: calls arrive after static destructors.
Table& table();

// A new one with its handles, not alive yet; nullptr: there are too many.
Green* make_entry(CUdevice device, CUcontext primary);

}  // namespace vgpu::green
