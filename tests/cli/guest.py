#!/usr/bin/env python3
# A guest that does as it is told on standard input, through the guest library by ctypes.
# SPDX-License-Identifier: Apache-2.0
"""Usage: guest.py LIBRARY. Lines in: alloc BYTES | free | info | quit. Out: CUresult, numbers."""
import ctypes
import sys


def main():
    cuda = ctypes.CDLL(sys.argv[1])
    result = cuda.cuInit(0)
    context = ctypes.c_void_p()
    if result == 0:
        result = cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
    if result == 0:
        result = cuda.cuCtxSetCurrent(context)
    print(result, flush=True)
    if result != 0:
        return
    blocks = []
    for line in sys.stdin:
        words = line.split()
        if words[0] == "alloc":
            address = ctypes.c_uint64()
            result = cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(int(words[1])))
            if result == 0:
                blocks.append(address)
            print(result, flush=True)
        elif words[0] == "free":
            print(cuda.cuMemFree_v2(blocks.pop()), flush=True)
        elif words[0] == "info":
            free, total, whole = ctypes.c_size_t(), ctypes.c_size_t(), ctypes.c_size_t()
            result = cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total))
            result = result or cuda.cuDeviceTotalMem_v2(ctypes.byref(whole), 0)
            print(result, free.value, total.value, whole.value, flush=True)
        elif words[0] == "quit":
            return


if __name__ == "__main__":
    main()
