// Functions that the generator writes whole.
// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>
#include <cudaProfiler.h>

#include "driver_functions.h"
#include "op.h"
#include "shim/call.h"

#include "shim_generated.inc"
