// The driver's linker: arguments, handles, inputs of no use.
// SPDX-License-Identifier: Apache-2.0
#include "table.h"

namespace vgpu::fidelity {
namespace {

// A link that ends with the row.
struct Made {
  explicit Made(World& world) : w(world) {
    (void)w.cu->cuLinkCreate_v2(0, nullptr, nullptr, &state);
  }
  ~Made() { (void)w.cu->cuLinkDestroy(state); }
  Made(const Made&) = delete;
  Made& operator=(const Made&) = delete;
  CUresult add(CUjitInputType type, const char* text, size_t bytes) const {
    return w.cu->cuLinkAddData_v2(state, type, const_cast<char*>(text), bytes, "input", 0, nullptr,
                                  nullptr);
  }
  World& w;
  CUlinkState state = nullptr;
};

const Row kRows[] = {
    ROW(kFresh, kNotInit, kDocumented, cuLinkCreate_v2(0, nullptr, nullptr, &w.link)),
    ROW(kFresh, kNotInit, kDocumented,
        cuLinkComplete(World::garbage<CUlinkState>(), &w.v, &w.size)),
    ROW(kNoContext, kContext, kDocumented, cuLinkCreate_v2(0, nullptr, nullptr, &w.link)),
    ROW(kReady, kValue, kDocumented, cuLinkCreate_v2(0, nullptr, nullptr, nullptr)),
    ROW(kReady, kValue, kDocumented, cuLinkCreate_v2(1, nullptr, nullptr, &w.link)),
    ROW(kReady, kHandle, kOurs, cuLinkDestroy(World::garbage<CUlinkState>())),
    ROW(kReady, kHandle, kOurs, cuLinkComplete(World::garbage<CUlinkState>(), &w.v, &w.size)),
    ROW(kReady, kHandle, kOurs,
        cuLinkAddFile_v2(World::garbage<CUlinkState>(), CU_JIT_INPUT_PTX, "/", 0, nullptr,
                         nullptr)),
    STEPS(kReady, kValue, kDocumented, "cuLinkComplete without a place",
          { return w.cu->cuLinkComplete(Made(w).state, nullptr, nullptr); }),
    STEPS(kReady, kValue, kDocumented, "cuLinkAddData without data",
          { return Made(w).add(CU_JIT_INPUT_PTX, nullptr, 4); }),
    STEPS(kReady, kValue, kDocumented, "cuLinkAddData of no bytes",
          { return Made(w).add(CU_JIT_INPUT_PTX, "x", 0); }),
    STEPS(kReady, CUDA_ERROR_INVALID_PTX, kDocumented, "cuLinkAddData of text that is no PTX",
          { return Made(w).add(CU_JIT_INPUT_PTX, "nothing", 8); }),
    STEPS(kReady, CUDA_ERROR_INVALID_IMAGE, kDocumented, "cuLinkAddData of no fat binary",
          { return Made(w).add(CU_JIT_INPUT_FATBINARY, "nothing", 8); }),
    STEPS(kReady, kValue, kOurs, "cuLinkAddData of no type that there is",
          { return Made(w).add(CU_JIT_NUM_INPUT_TYPES, "nothing", 8); }),
    STEPS(kReady, CUDA_ERROR_FILE_NOT_FOUND, kDocumented, "cuLinkAddFile of no file",
          {
            return w.cu->cuLinkAddFile_v2(Made(w).state, CU_JIT_INPUT_PTX, "/nowhere/at.all", 0,
                                          nullptr, nullptr);
          }),
    ROW(kFault, kIllegal, kDocumented, cuLinkCreate_v2(0, nullptr, nullptr, &w.link)),
    ROW(kForked, kNotInit, kOurs, cuLinkCreate_v2(0, nullptr, nullptr, &w.link)),
};

}  // namespace

const std::span<const Row> kLinkRows = kRows;

}  // namespace vgpu::fidelity
