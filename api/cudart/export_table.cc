// cuGetExportTable: the private tables that libcudart and NVIDIA's libraries ask a driver for.
// SPDX-License-Identifier: Apache-2.0
#include "api/cudart/export_table.h"

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <utility>

#include "api/cudart/context_storage.h"
#include "api/cudart/host.h"
#include "api/cudart/validity.h"
#include "base/log.h"

namespace vgpu::cudart {
namespace {

using Word = const void*;

template <typename F>
Word slot(F* function) {
  return reinterpret_cast<Word>(function);
}

enum class TableName {
  kRuntimeInterface,
  kToolsCallbacks,
  kToolsThread,
  kContextChecks,
  kIntegrity,
  kToolsContext,
  kToolsModule,
  kMatmul,
};

// Fills what nobody was seen to call: refuses whatever its arguments are, and says once which slot
// a newer library wants.
template <TableName kName, size_t kSlot>
CUresult refused() {
  constexpr const char* kNames[] = {"runtime interface", "tools callbacks", "tools thread",
                                    "context checks",    "integrity",       "tools context",
                                    "tools module",      "matmul"};
  constexpr const char* kTable = kNames[static_cast<size_t>(kName)];
  char key[64];
  std::snprintf(key, sizeof key, "%s %zu", kTable, kSlot);
  log_once(key, LogLevel::kInfo, "cuGetExportTable: slot %zu of %s was called and refused", kSlot,
           kTable);
  return CUDA_ERROR_NOT_SUPPORTED;
}

// A table of `kWords` words: its size in bytes, then functions.
template <TableName kName, size_t kWords>
struct Table {
  Word words[kWords];
  Table() : Table(std::make_index_sequence<kWords>()) {}

 private:
  template <size_t... kSlots>
  explicit Table(std::index_sequence<kSlots...>) : words{slot(refused<kName, kSlots>)...} {
    words[0] = reinterpret_cast<Word>(kWords * sizeof(Word));
  }
};

// --- runtime interface: the primary context of a device, without creating it ---
CUresult runtime_primary_context(CUcontext* context, CUdevice device) {
  if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return host().primary_context(context, device);
}

// --- runtime interface: code. Runtimes before CUDA 12 load a program's fat binaries through these,
// where later ones call cuLibraryLoadData. ---
CUresult runtime_load_wrapper(CUmodule* module, const void* wrapper) {
  if (module == nullptr || wrapper == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return host().load_module(module, wrapper);
}
CUresult runtime_load_wrapper_with(CUmodule* module, const void* wrapper, void*, void*, uint32_t) {
  return runtime_load_wrapper(module, wrapper);
}
CUresult runtime_load_container(const void* container, CUmodule* module, void*, void*, uint32_t) {
  return runtime_load_wrapper(module, container);
}
CUresult runtime_note_bytes(size_t) { return CUDA_SUCCESS; }

// Asked at start by CUDA 13.5: whether code can be compiled at all. It can: from PTX.
CUresult runtime_load_compilers() { return CUDA_SUCCESS; }

// --- tools: enable arrays, all zero = no tool is attached ---
void tools_api_flags(void** flags, size_t* count) {
  static uint32_t zeros[1024];
  *flags = zeros;
  *count = 1024;
}
void tools_domain_flags(void** flags, size_t* count) {
  static uint32_t zeros[14];
  *flags = zeros;
  *count = 14;
}

CUresult tools_current_context(CUcontext* context) {
  if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return host().current_context(context);
}

CUresult tools_context_id(CUcontext context, uint64_t* id) {
  if (id == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return host().context_id(context, id);
}

// cuBLAS keeps a workspace for each stream: first it asks which stream a handle means, then for a
// number of that stream. What the first gives is only ever handed to the second.
CUresult tools_stream(CUcontext, CUstream stream, const void** identity) {
  thread_local char own_stream = 0;
  if (identity == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *identity = stream == nullptr ? CU_STREAM_LEGACY : stream;
  if (stream == CU_STREAM_PER_THREAD) *identity = &own_stream;
  return CUDA_SUCCESS;
}
CUresult tools_stream_id(CUcontext, const void* identity, uint64_t* id) {
  if (identity == nullptr || id == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *id = reinterpret_cast<uintptr_t>(identity);
  return CUDA_SUCCESS;
}

uint64_t tools_each_kernel(CUcontext, CUmodule module, void (*visit)(void*, CUfunction, uint64_t),
                           void* user) {
  return visit == nullptr ? 0 : host().each_kernel(module, visit, user);
}

CUresult context_check(CUcontext, uint32_t* flags, const void** detail) {
  if (flags != nullptr) *flags = 0;
  if (detail != nullptr) *detail = nullptr;
  return CUDA_SUCCESS;
}
uint32_t context_check_flags() { return 0; }

CUresult integrity_check(uint32_t version, uint64_t unix_seconds, uint64_t out[2]);

struct Tables {
  Table<TableName::kRuntimeInterface, 16> runtime_interface;
  Table<TableName::kToolsCallbacks, 7> tools_callbacks;
  Table<TableName::kToolsThread, 4> tools_thread;
  Word context_storage[4] = {slot(storage_put), slot(storage_remove), slot(storage_get),
                             nullptr};  // has no size word
  Table<TableName::kContextChecks, 17> context_checks;
  Table<TableName::kIntegrity, 3> integrity;
  Table<TableName::kToolsContext, 95> tools_context;
  Table<TableName::kToolsModule, 64> tools_module;
  // Asked by cuBLASLt on compute capability 9.0, which crashes on a refusal and copes with this.
  Table<TableName::kMatmul, 16> matmul;

  Tables() {
    runtime_interface.words[1] = slot(runtime_load_wrapper);
    runtime_interface.words[2] = slot(runtime_primary_context);
    runtime_interface.words[6] = slot(runtime_load_wrapper_with);
    runtime_interface.words[7] = slot(runtime_note_bytes);
    runtime_interface.words[8] = slot(runtime_load_container);
    runtime_interface.words[12] = slot(runtime_load_compilers);
    tools_callbacks.words[2] = slot(tools_api_flags);
    tools_callbacks.words[6] = slot(tools_domain_flags);
    tools_thread.words[2] = slot(tools_current_context);
    context_checks.words[2] = slot(context_check);
    context_checks.words[3] = slot(context_check_flags);
    integrity.words[1] = slot(integrity_check);
    tools_context.words[4] = slot(tools_context_id);
    tools_context.words[39] = slot(tools_stream_id);
    tools_context.words[51] = slot(tools_stream);
    tools_module.words[7] = slot(tools_each_kernel);
  }
};

const Tables& tables() {
  static const Tables* const t = new Tables;  // never destroyed: libcudart keeps the addresses
  return *t;
}

CUresult integrity_check(uint32_t version, uint64_t unix_seconds, uint64_t out[2]) {
  const Tables& t = tables();
  return validity_digest({t.runtime_interface.words, t.integrity.words, t.integrity.words[1]},
                         version, unix_seconds, out);
}

struct Known {
  uint8_t id[16];
  Word (*table)();
};

const Known kKnown[] = {
    {{0x6b, 0xd5, 0xfb, 0x6c, 0x5b, 0xf4, 0xe7, 0x4a, 0x89, 0x87, 0xd9, 0x39, 0x12, 0xfd, 0x9d,
      0xf9},
     +[]() -> Word { return tables().runtime_interface.words; }},
    {{0xa0, 0x94, 0x79, 0x8c, 0x2e, 0x74, 0x2e, 0x74, 0x93, 0xf2, 0x08, 0x00, 0x20, 0x0c, 0x0a,
      0x66},
     +[]() -> Word { return tables().tools_callbacks.words; }},
    {{0x42, 0xd8, 0x5a, 0x81, 0x23, 0xf6, 0xcb, 0x47, 0x82, 0x98, 0xf6, 0xe7, 0x8a, 0x3a, 0xec,
      0xdc},
     +[]() -> Word { return tables().tools_thread.words; }},
    {{0xc6, 0x93, 0x33, 0x6e, 0x11, 0x21, 0xdf, 0x11, 0xa8, 0xc3, 0x68, 0xf3, 0x55, 0xd8, 0x95,
      0x93},
     +[]() -> Word { return tables().context_storage; }},
    {{0x26, 0x3e, 0x88, 0x60, 0x7c, 0xd2, 0x61, 0x43, 0x92, 0xf6, 0xbb, 0xd5, 0x00, 0x6d, 0xfa,
      0x7e},
     +[]() -> Word { return tables().context_checks.words; }},
    {{0xd4, 0x08, 0x20, 0x55, 0xbd, 0xe6, 0x70, 0x4b, 0x8d, 0x34, 0xba, 0x12, 0x3c, 0x66, 0xe1,
      0xf2},
     +[]() -> Word { return tables().integrity.words; }},
    {{0x21, 0x31, 0x8c, 0x60, 0x97, 0x14, 0x32, 0x48, 0x8c, 0xa6, 0x41, 0xff, 0x73, 0x24, 0xc8,
      0xf2},
     +[]() -> Word { return tables().tools_context.words; }},
    {{0x6e, 0x16, 0x3f, 0xbe, 0xb9, 0x58, 0x44, 0x4d, 0x83, 0x5c, 0xe1, 0x82, 0xaf, 0xf1, 0x99,
      0x1e},
     +[]() -> Word { return tables().tools_module.words; }},
    {{0x17, 0x34, 0xdc, 0x26, 0x80, 0x0d, 0x47, 0x45, 0x87, 0x26, 0xc0, 0xf1, 0xe7, 0xdd, 0x8b,
      0xca},
     +[]() -> Word { return tables().matmul.words; }},
};

// Some are asked by every libcudart and refused on purpose, so this is no warning.
void log_refusal(const CUuuid& id) {
  char text[2 * sizeof id.bytes + 1];
  for (size_t i = 0; i < sizeof id.bytes; ++i) {
    std::snprintf(text + 2 * i, 3, "%02x", static_cast<unsigned char>(id.bytes[i]));
  }
  log_once(text, LogLevel::kInfo, "cuGetExportTable: no table %s", text);
}

}  // namespace

CUresult get_export_table(const void** table, const CUuuid* id) {
  if (table == nullptr || id == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *table = nullptr;
  for (const Known& known : kKnown) {
    if (std::memcmp(known.id, id->bytes, sizeof known.id) == 0) {
      *table = known.table();
      return CUDA_SUCCESS;
    }
  }
  log_refusal(*id);
  return CUDA_ERROR_INVALID_VALUE;
}

}  // namespace vgpu::cudart
