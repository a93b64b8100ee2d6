// Compiled kernels on disk, found by what they were compiled from.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "base/unique_fd.h"

namespace vgpu::softgpu {

// Machine code of one kernel before it is linked, and what belongs to it.
struct ObjectCode {
  std::string bytes;                 // an ELF object that defines "kernel"
  std::vector<std::string> symbols;  // whose addresses the code reads from WarpContext::symbols
  uint32_t save_bytes = 0, local_bytes = 0, shared_bytes = 0, stack_bytes = 0;
  bool stack_dynamic = false;
};

// A folder with one file per key. Whoever can write there can run code in this process, so a folder
// or a file that others own or may write is not used; file names follow from the key, and the
// content is checked against a checksum. Writers put a complete file in place by rename(2): readers
// never see half of one, and of two writers the last wins. Thread-safe.
class CodeCache {
 public:
  // The cache that VGPU_SOFTGPU_CACHE names: "off" (or 0), or a folder; by default
  // $XDG_CACHE_HOME/vgpu/softgpu or ~/.cache/vgpu/softgpu. Off, too, in programs that run with more
  // rights than their user.
  static CodeCache& instance();

  // Opens (and creates, for this user alone) the folder. Empty = off. Files are removed, those
  // unused for longest first, when all of them take more than `bytes_max`.
  CodeCache(const std::string& folder, uint64_t bytes_max);

  bool enabled() const { return folder_.valid(); }
  // False when there is none, or when it is damaged (it is replaced by the next store()).
  bool find(const std::string& key, ObjectCode* code);
  // Does its best: a full disk or a sandbox that forbids writing leaves the cache as it is.
  void store(const std::string& key, const ObjectCode& code);

 private:
  void trim();

  UniqueFd folder_;
  const uint64_t bytes_max_;
  std::atomic<bool> writable_{true};
  std::atomic<uint64_t> written_{0};  // since the last look at the sizes
};

}  // namespace vgpu::softgpu
