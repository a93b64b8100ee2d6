// The private table by which a server meters the work that it gives.
// SPDX-License-Identifier: Apache-2.0
#include "softgpu/api/metering.h"

#include <cstring>

#include "softgpu/api/driver.h"
#include "softgpu/exec/meter.h"

namespace vgpu::softgpu {
namespace {

void start(const SoftMeterHooks* given) { start_meter(*given); }

void piece(uint64_t kind, uint64_t note, void (*body)(void*), void* argument) {
  const auto made = std::make_shared<Piece>(kind, note);
  const PieceScope scope(made);
  body(argument);
}

void limit_kernels(uint64_t ms) {
  Driver& driver = Driver::instance();
  for (int i = 0; i < driver.device_count(); ++i) driver.device(i).management().limit_kernels(ms);
}

}  // namespace

const SoftMeterTable* meter_table(const CUuuid& id) {
  static const SoftMeterTable table = {sizeof(SoftMeterTable), start, piece, limit_kernels};
  return std::memcmp(&id, &kSoftMeterId, sizeof(id)) == 0 ? &table : nullptr;
}

}  // namespace vgpu::softgpu
