// Device memory: a range of the process' own addresses (device pointer = host pointer), and the map
// of everything in it. SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SOFTGPU_EXEC_MEMORY_SPACE_H_
#define VGPU_SOFTGPU_EXEC_MEMORY_SPACE_H_

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/unique_fd.h"
#include "softgpu/exec/device_segment.h"
#include "softgpu/exec/shared_pages.h"

namespace vgpu::softgpu {

inline constexpr uint64_t kSmallAlignment = 512;     // what native hands out
inline constexpr uint64_t kChunkBytes = 2ull << 20;  // small blocks share these; unit of the ledger
inline constexpr uint64_t kSmallBytesMax = 1ull << 20;  // larger blocks have pages of their own

enum class MemoryKind : uint8_t {
  kDevice,
  kModule,
  kHost,
  kRegisteredHost,
  kVirtual,
  kArray,
  kManaged,
  kPeer,           // another process', opened by its handle
  kManagedModule,  // variables of a module, in pages that can be shared with another process
};

// One range that the driver knows.
struct MemoryRange {
  uint64_t base = 0;
  uint64_t bytes = 0;  // what may be used
  uint64_t held = 0;   // what it occupies (blocks of allocate())
  MemoryKind kind = MemoryKind::kDevice;
  uint64_t owner = 0;  // id of the context that made it
  uint64_t id = 0;     // unique per allocation (CU_POINTER_ATTRIBUTE_BUFFER_ID)
  uint32_t flags = 0;  // cuMemHostAlloc / cuMemHostRegister flags
  bool sync_memops = false;
  bool pooled = false;  // of a memory pool, which alone gives it back
  bool open = true;     // kVirtual: may be read and written
  int device = 0;       // ordinal
};

// Allocator and interval map of one device. Thread-safe. What is freed goes back to the system;
// large blocks become inaccessible at once, small ones when their 2 MiB chunk is empty and another
// empty one is kept.
class MemorySpace {
 public:
  // Reserves the address range. `segment` outlives this object.
  // `strict`: every block ends right before an inaccessible page.
  static Result<std::unique_ptr<MemorySpace>> create(DeviceSegment* segment, bool strict = false,
                                                     int device = 0);
  // Addresses mean the same on all devices: what is asked or freed here may lie in another's space.
  // Before there are other threads.
  void add_other(MemorySpace* other) { others_.push_back(other); }
  ~MemorySpace();

  // Zero when there is no memory left. `kind` is kDevice, kModule, kArray or kManagedModule.
  uint64_t allocate(uint64_t bytes, MemoryKind kind, uint64_t owner);
  // The block belongs to a memory pool now; of its bytes `usable` may be used, 0 hides it.
  void set_pooled(uint64_t base, uint64_t usable);
  // Cuts a large pooled block in two; the second begins at base + bytes and is hidden.
  bool split_pooled(uint64_t base, uint64_t bytes);
  // False when `address` is not the start of a block from allocate().
  bool free(uint64_t address);
  // Where managed memory of `owner` begins.
  std::vector<uint64_t> managed_of(uint64_t owner) const;
  // Frees all that `owner` has here but mappings of the virtual memory family.
  void free_owned_by(uint64_t owner);

  // Host memory: pages from the system (zeroed), or the caller's own. Zero / false when that fails.
  // `kind` is kHost or kManaged, which is memory of both sides.
  uint64_t allocate_host(uint64_t bytes, uint32_t flags, uint64_t owner,
                         MemoryKind kind = MemoryKind::kHost);
  bool free_host(uint64_t address, MemoryKind kind = MemoryKind::kHost);
  // A new descriptor of the pages of a block of kManagedModule; -1: [base, base + bytes) is not
  // one.
  int descriptor_of(uint64_t base, uint64_t bytes) const;
  enum class Registration { kDone, kAlready, kInvalid };
  Registration register_host(uint64_t address, uint64_t bytes, uint32_t flags, uint64_t owner);
  bool unregister_host(uint64_t address);

  // Memory of allocate() that other processes may have too (memory_sharing.cc): where its pages are
  // is moved into a file, whatever runs meanwhile; small blocks take their whole chunk with them,
  // as they do natively. False: no block of kDevice, or the system gives no file.
  struct SharedBlock {
    int file = -1;  // borrowed: of as many pages as the block or its chunk has
    PagesSecret secret;
    uint64_t offset = 0, bytes = 0;  // of the block in them
  };
  bool share(uint64_t address, SharedBlock* block);
  // Another process' block, which is in no ledger here. 0: the file is not what the handle says.
  uint64_t open_peer(int file, const SharedBlock& block, uint64_t owner);
  bool close_peer(uint64_t address);

  // Ranges of the virtual memory family; the caller has mapped the pages.
  void add_range(uint64_t base, uint64_t bytes, MemoryKind kind, uint64_t owner);
  bool remove_range(uint64_t base);
  // Whether ranges of kVirtual within [base, base + bytes) may be read and written.
  void set_open(uint64_t base, uint64_t bytes, bool open);

  // The range that holds `address`.
  std::optional<MemoryRange> find(uint64_t address) const;
  // True when [address, address + bytes) lies in known ranges without a gap.
  bool covers(uint64_t address, uint64_t bytes) const;
  bool set_sync_memops(uint64_t address, bool on);
  // For messages: where an address that is in no range lies, told by the nearest range below it.
  std::string describe(uint64_t address) const;

 private:
  MemorySpace(DeviceSegment* segment, bool strict, int device)
      : segment_(segment), strict_(strict), device_(device) {}
  std::optional<MemoryRange> find_here(uint64_t address) const;
  bool free_here(uint64_t address);
  bool free_host_here(uint64_t address, MemoryKind kind);
  bool unregister_here(uint64_t address);
  bool remove_here(uint64_t base);
  void set_open_here(uint64_t base, uint64_t bytes, bool open);
  int descriptor_here(uint64_t base, uint64_t bytes) const;
  bool set_sync_memops_here(uint64_t address, bool on);
  uint64_t allocate_small(uint64_t bytes);
  uint64_t allocate_large(uint64_t bytes);
  uint64_t allocate_shared(uint64_t bytes);
  uint64_t allocate_guarded(uint64_t bytes);
  bool is_small(uint64_t bytes) const { return !strict_ && bytes <= kSmallBytesMax; }
  void free_small(uint64_t address, uint64_t bytes);
  void free_large(uint64_t address, uint64_t bytes);
  bool add_chunk();
  void free_chunk(uint64_t address);
  uint64_t take_pages(uint64_t bytes);
  void give_pages(uint64_t address, uint64_t bytes);
  void drop_free_block(std::map<uint64_t, uint64_t>::iterator block);
  void insert(const MemoryRange& range);
  bool pages_of(const MemoryRange& range, uint64_t* first, uint64_t* bytes) const;

  DeviceSegment* const segment_;
  const bool strict_;
  const int device_;
  std::vector<MemorySpace*> others_;
  uint64_t base_ = 0;
  uint64_t bytes_ = 0;
  mutable std::mutex mutex_;
  std::map<uint64_t, MemoryRange> ranges_;  // by base
  struct SharedPages {
    UniqueFd file;
    PagesSecret secret;
  };
  std::map<uint64_t, SharedPages> shared_;   // by their first page
  std::map<uint64_t, UniqueFd> files_;       // of blocks whose pages can be shared
  std::map<uint64_t, uint64_t> free_pages_;  // address -> bytes, never adjacent
  std::map<uint64_t, uint64_t> free_small_;  // address -> bytes, never adjacent within a chunk
  std::set<std::pair<uint64_t, uint64_t>> small_by_size_;  // (bytes, address) of the same blocks
  uint64_t spare_chunk_ = 0;  // accessible, not in the ledger; 0 = none
  uint64_t next_id_ = 1;
};

}  // namespace vgpu::softgpu

#endif  // VGPU_SOFTGPU_EXEC_MEMORY_SPACE_H_
