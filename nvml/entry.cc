// The exported functions, which nvml/codegen makes.
// SPDX-License-Identifier: Apache-2.0
#include <nvml.h>

#include "nvml/library.h"
#include "nvml_functions.h"

#include "nvml_entry.inc"
