// Ranges of managed memory and what the application has said about them: cuMemAdvise,
// cuMemPrefetchAsync, cuMemRangeGetAttribute. Host and device share the pages, so advice moves
// nothing; it is kept and answered.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_API_MANAGED_MANAGED_RANGES_H_
#define VGPU_API_MANAGED_MANAGED_RANGES_H_

#include <cuda.h>

#include <cstdint>
#include <map>
#include <mutex>

namespace vgpu {

// The location that the first form of these calls means by a device's number.
inline CUmemLocation location_of(CUdevice device) {
  CUmemLocation location = {};
  location.type = device == CU_DEVICE_CPU ? CU_MEM_LOCATION_TYPE_HOST : CU_MEM_LOCATION_TYPE_DEVICE;
  location.id = device == CU_DEVICE_CPU ? 0 : device;
  return location;
}

// Flags of cuMemAllocManaged: exactly one of two.
inline bool attach_flags_valid(unsigned flags) {
  return flags == CU_MEM_ATTACH_GLOBAL || flags == CU_MEM_ATTACH_HOST;
}

// Thread-safe.
class ManagedRanges {
 public:
  // How many devices there are, numbered from 0; before there are other threads.
  void set_devices(int count) { devices_ = count; }
  // What was known of the same addresses is forgotten.
  void add(uint64_t base, uint64_t bytes);
  void remove(uint64_t base);
  // Whether all of it is managed memory of one block.
  bool contains(uint64_t address, uint64_t bytes = 1);

  CUresult advise(uint64_t address, uint64_t bytes, CUmem_advise advice, CUmemLocation location);
  CUresult prefetch(uint64_t address, uint64_t bytes, CUmemLocation location, unsigned flags);
  // What prefetch() would say, without doing it.
  CUresult check_prefetch(uint64_t address, uint64_t bytes, CUmemLocation location);
  CUresult get(void* data, size_t data_bytes, CUmem_range_attribute which, uint64_t address,
               uint64_t bytes);
  CUresult get(void** data, const size_t* data_bytes, const CUmem_range_attribute* which,
               size_t count, uint64_t address, uint64_t bytes);
  // As cuStreamAttachMemAsync; `bytes` 0: the whole block. `null_stream`: nothing can be attached.
  CUresult attach(uint64_t address, uint64_t bytes, unsigned flags, bool null_stream);

 private:
  // What holds from one address to the next entry of its block.
  struct Advice {
    bool read_mostly = false;
    uint32_t accessed_by_devices = 0;  // a bit for each
    bool accessed_by_host = false;
    CUmemLocation preferred = {CU_MEM_LOCATION_TYPE_INVALID, CU_DEVICE_INVALID};
    CUmemLocation prefetched = {CU_MEM_LOCATION_TYPE_INVALID, CU_DEVICE_INVALID};
    bool operator==(const Advice& other) const;
  };
  struct Block {
    uint64_t bytes = 0;
    std::map<uint64_t, Advice> advice;  // by offset; the first is 0
  };

  CUresult check_location(const CUmemLocation& location, bool numa_too) const;
  Block* find(uint64_t address, uint64_t bytes, uint64_t* offset);
  template <typename Change>
  static void change(Block* block, uint64_t offset, uint64_t bytes, Change&& change);
  static Advice common(const Block& block, uint64_t offset, uint64_t bytes);
  CUresult get_locked(void* data, size_t data_bytes, CUmem_range_attribute which,
                      const Advice& advice);

  int devices_ = 1;
  std::mutex mutex_;
  std::map<uint64_t, Block> blocks_;  // by base
};

}  // namespace vgpu

#endif  // VGPU_API_MANAGED_MANAGED_RANGES_H_
