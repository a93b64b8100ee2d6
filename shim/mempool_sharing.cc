// Pools that processes of one user share: descriptors and export data hold names of the worker's.
// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>
#include <cudaProfiler.h>

#include <cstring>

#include "driver_functions.h"
#include "shim/process.h"
#include "shim/share.h"

namespace vgpu::driver {
namespace {

using shim::enter;
using shim::handle_of;
using shim::id_of;
using shim::Session;
using shim::ShareName;

struct PointerData {
  uint64_t pool_low = 0, pool_high = 0;
  ShareName block;
};
static_assert(sizeof(PointerData) <= sizeof(CUmemPoolPtrExportData));

// The pool's name, which the worker gives when it is first wanted.
CUresult name_of(Session& session, CUmemoryPool pool, PoolName* name) {
  std::lock_guard lock(session.shared().naming);
  int device = 0;
  const CUresult checked = session.pools()->check_export(id_of(pool), &device, name);
  if (checked != CUDA_SUCCESS || *name != PoolName()) return checked;
  wire::PoolShareArgs args;
  args.device = static_cast<uint32_t>(device);
  wire::PoolShareReply answer;
  const CUresult result = session.ask(nullptr, Op::kPoolShare, args, &answer);
  if (result != CUDA_SUCCESS) return result;
  *name = {answer.session, answer.secret_low, answer.secret_high};
  session.pools()->set_name(id_of(pool), *name);
  return CUDA_SUCCESS;
}

}  // namespace

CUresult cuMemPoolExportToShareableHandle(void* out, CUmemoryPool pool,
                                          CUmemAllocationHandleType type,
                                          unsigned long long flags) {
  Session* session;
  if (CUresult r = enter(&session); r != CUDA_SUCCESS) return r;
  if (out == nullptr || flags != 0 || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
    return CUDA_ERROR_INVALID_VALUE;
  PoolName name;
  if (CUresult r = name_of(*session, pool, &name); r != CUDA_SUCCESS) return r;
  return shim::write_name(*session, {name.session, name.secret_low, name.secret_high},
                          static_cast<int*>(out));
}

CUresult cuMemPoolImportFromShareableHandle(CUmemoryPool* out, void* descriptor,
                                            CUmemAllocationHandleType type,
                                            unsigned long long flags) {
  Session* session;
  if (CUresult r = enter(&session); r != CUDA_SUCCESS) return r;
  if (out == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || !shim::shares_memory(*session))
    return CUDA_ERROR_NOT_SUPPORTED;
  ShareName name;
  if (!shim::read_name(static_cast<int>(reinterpret_cast<intptr_t>(descriptor)), &name))
    return CUDA_ERROR_INVALID_VALUE;
  shim::FetchedShare fetched;
  if (CUresult r = fetched.fetch(*session, name, shim::kSharedPool); r != CUDA_SUCCESS) return r;
  uint64_t id = 0;
  const CUresult result = session->pools()->import_pool(
      fetched.device(), {name.session, name.secret_low, name.secret_high}, &id);
  if (result == CUDA_SUCCESS) *out = handle_of<CUmemoryPool>(id);
  return result;
}

CUresult cuMemPoolExportPointer(CUmemPoolPtrExportData* out, CUdeviceptr address) {
  Session* session;
  if (CUresult r = enter(&session); r != CUDA_SUCCESS) return r;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  PoolName pool;
  int device = 0;
  if (CUresult r = session->pools()->exported_from(address, &device, &pool); r != CUDA_SUCCESS)
    return r;
  PointerData data{pool.secret_low, pool.secret_high, {}};
  if (CUresult r = shim::share_block(*session, address, true, &data.block); r != CUDA_SUCCESS)
    return r;
  *out = {};
  std::memcpy(out, &data, sizeof(data));
  return CUDA_SUCCESS;
}

CUresult cuMemPoolImportPointer(CUdeviceptr* out, CUmemoryPool pool,
                                CUmemPoolPtrExportData* exported) {
  Session* session;
  if (CUresult r = enter(&session); r != CUDA_SUCCESS) return r;
  if (out == nullptr || exported == nullptr) return CUDA_ERROR_INVALID_VALUE;
  PointerData data;
  std::memcpy(static_cast<void*>(&data), exported, sizeof(data));
  int device = 0;
  if (CUresult r = session->pools()->check_import(
          id_of(pool), {data.block.session, data.pool_low, data.pool_high}, &device);
      r != CUDA_SUCCESS) {
    return r;
  }
  shim::PeerBlock block;
  if (CUresult r = shim::open_block(*session, data.block, device, 0, &block); r != CUDA_SUCCESS)
    return r;
  const CUresult result = session->pools()->adopt(id_of(pool), block.address, block.bytes);
  if (result == CUDA_SUCCESS)
    *out = block.address;
  else
    (void)shim::close_block(*session, block.address);
  return result;
}

}  // namespace vgpu::driver
