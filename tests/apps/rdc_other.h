// What the two files of the rdc program have of each other.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "app.h"

extern __device__ int counter;
extern __constant__ int factors[4];
using Function = int (*)(int);
__device__ int other_function(int x, int t);
__device__ int shared_sum(int t);
__device__ Function chosen(int which);
void launch_other(int* out);
