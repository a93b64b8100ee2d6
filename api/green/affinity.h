// What a program says about the SMs of a context that it creates.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>

namespace vgpu::green {

// SMs that the parameters ask for: of two of the same type the later one counts. 0: all of them.
// INVALID_VALUE for no array or a negative count, UNSUPPORTED_EXEC_AFFINITY for other types.
CUresult read_affinity(const CUexecAffinityParam* params, int count, unsigned* sms);
// The same of cuCtxCreate_v4, which has other kinds of parameters: NOT_SUPPORTED for those.
CUresult read_affinity(const CUctxCreateParams* params, unsigned* sms);

}  // namespace vgpu::green
