// cuGetProcAddress: the newest variant of a name that is not newer than what the caller asks for.
// SPDX-License-Identifier: Apache-2.0
#include "api/cudart/proc_address.h"

#include <algorithm>
#include <cstring>

namespace vgpu::cudart {
namespace {

struct Lookup {
  const SymbolRow* best = nullptr;
  bool known = false;  // the name exists, in whatever version
};

// Orders rows as the table stands: plain ones first, then by name.
int compare(const SymbolRow& row, const char* name, bool per_thread) {
  if (row.per_thread != per_thread) return row.per_thread ? 1 : -1;
  return std::strcmp(row.base, name);
}

// libcudart asks 440 times at start, once for each of its copies in a process: by halves, not by
// walking.
Lookup find(std::span<const SymbolRow> rows, const char* name, int version, bool per_thread) {
  auto row = std::partition_point(rows.begin(), rows.end(), [&](const SymbolRow& r) {
    return compare(r, name, per_thread) < 0;
  });
  Lookup found;
  for (; row != rows.end() && compare(*row, name, per_thread) == 0; ++row) {
    found.known = true;
    if (row->version <= version) found.best = &*row;
  }
  return found;
}

}  // namespace

CUresult get_proc_address(std::span<const SymbolRow> rows, const char* name, void** address,
                          int version, cuuint64_t flags, CUdriverProcAddressQueryResult* status) {
  if (name == nullptr || address == nullptr) return CUDA_ERROR_INVALID_VALUE;
  constexpr cuuint64_t kKnownFlags =
      CU_GET_PROC_ADDRESS_LEGACY_STREAM | CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
  if ((flags & ~kKnownFlags) != 0) return CUDA_ERROR_INVALID_VALUE;
  *address = nullptr;
  Lookup found;
  if ((flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0) {
    found = find(rows, name, version, true);
  }
  if (found.best == nullptr || found.best->address == nullptr) {
    const Lookup plain = find(rows, name, version, false);
    if (found.best == nullptr)
      found.best = plain.best;  // a per-thread form that is not served stays a miss
    found.known = found.known || plain.known;
  }
  if (found.best != nullptr && found.best->address != nullptr) {
    *address = found.best->address;
    if (status != nullptr) *status = CU_GET_PROC_ADDRESS_SUCCESS;
    return CUDA_SUCCESS;
  }
  const bool too_old = found.known && found.best == nullptr;
  if (status != nullptr) {
    *status =
        too_old ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  }
  return CUDA_ERROR_NOT_FOUND;
}

}  // namespace vgpu::cudart
