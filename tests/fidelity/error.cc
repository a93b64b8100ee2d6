// cuGetErrorName, cuGetErrorString: they need no cuInit.
// SPDX-License-Identifier: Apache-2.0
#include "table.h"

namespace vgpu::fidelity {
namespace {

constexpr auto kNoError = static_cast<CUresult>(54321);
constexpr auto kNegative = static_cast<CUresult>(-1);

const Row kRows[] = {
    ROW(kFresh, kOk, kDocumented, cuGetErrorName(CUDA_SUCCESS, &w.text)),
    ROW(kFresh, kOk, kDocumented, cuGetErrorString(CUDA_ERROR_UNKNOWN, &w.text)),
    ROW(kFresh, kValue, kDocumented, cuGetErrorName(kNoError, &w.text)),
    ROW(kFresh, kValue, kDocumented, cuGetErrorString(kNoError, &w.text)),
    ROW(kReady, kValue, kDocumented, cuGetErrorName(kNoError, &w.text)),
    ROW(kReady, kValue, kDocumented, cuGetErrorString(kNoError, &w.text)),
    ROW(kReady, kValue, kDocumented, cuGetErrorName(kNegative, &w.text)),
    ROW(kReady, kValue, kDocumented, cuGetErrorString(kNegative, &w.text)),
    ROW(kReady, kValue, kOurs, cuGetErrorName(CUDA_SUCCESS, nullptr)),
    ROW(kReady, kValue, kOurs, cuGetErrorString(CUDA_SUCCESS, nullptr)),
    STEPS(kReady, kOk, kDocumented, "cuGetErrorName(unknown) clears the pointer",
          {
            w.text = "left over";
            (void)w.cu->cuGetErrorName(kNoError, &w.text);
            return w.text == nullptr ? kOk : kValue;
          }),
    STEPS(kReady, kOk, kDocumented, "cuGetErrorString(unknown) clears the pointer",
          {
            w.text = "left over";
            (void)w.cu->cuGetErrorString(kNoError, &w.text);
            return w.text == nullptr ? kOk : kValue;
          }),
    ROW(kFault, kOk, kDocumented, cuGetErrorName(CUDA_ERROR_ILLEGAL_ADDRESS, &w.text)),
    ROW(kForked, kOk, kDocumented, cuGetErrorName(CUDA_SUCCESS, &w.text)),
};

}  // namespace

const std::span<const Row> kErrorRows = kRows;

}  // namespace vgpu::fidelity
