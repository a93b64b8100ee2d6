# A guest that computes until it is ended: plain CUDA driver API, so that it needs no packages.
# SPDX-License-Identifier: Apache-2.0
"""Usage: busy_guest.py MEBIBYTES [idle]. Says "ready" when it has its memory and has computed."""
import ctypes
import sys

PTX = b""".version 7.0
.target sm_70
.address_size 64
.visible .entry spin(.param .u32 rounds) {
  .reg .u32 %r<3>;
  .reg .pred %p;
  ld.param.u32 %r0, [rounds];
  mov.u32 %r1, 0;
L: mad.lo.u32 %r1, %r1, 5, 1;
  sub.u32 %r0, %r0, 1;
  setp.ne.u32 %p, %r0, 0;
  @%p bra L;
  ret;
}
\0"""
cuda = ctypes.CDLL("libcuda.so.1")


def call(name, *arguments):
    result = getattr(cuda, name)(*arguments)
    if result != 0:
        sys.exit(f"{name}: {result}")


def main():
    context, module, function = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    block = ctypes.c_uint64()
    call("cuInit", 0)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
    call("cuCtxSetCurrent", context)
    call("cuMemAlloc_v2", ctypes.byref(block), ctypes.c_size_t(int(sys.argv[1]) << 20))
    call("cuMemsetD8_v2", block, ctypes.c_ubyte(0), ctypes.c_size_t(1 << 20))
    call("cuModuleLoadData", ctypes.byref(module), PTX)
    call("cuModuleGetFunction", ctypes.byref(function), module, b"spin")
    rounds = ctypes.c_uint32(1 << 20)
    arguments = (ctypes.c_void_p * 1)(ctypes.addressof(rounds))
    said = False
    while True:
        call("cuLaunchKernel", function, 8, 1, 1, 64, 1, 1, 0, None, arguments, None)
        call("cuCtxSynchronize")
        if not said:
            print("ready", flush=True)
            said = True
        if len(sys.argv) > 2:
            sys.stdin.read()  # idle, until whoever started it goes
            return


if __name__ == "__main__":
    main()
