# cuda-python: NVRTC and the driver called from Python, and the same through cuda.core.
# SPDX-License-Identifier: Apache-2.0
import ctypes

import numpy as np
from cuda.bindings import driver, nvrtc
from cuda.core import Device, LaunchConfig, Program, ProgramOptions, launch

TEXT = r"""
extern "C" __global__ void saxpy(float a, const float* x, float* y, unsigned long long n) {
  const unsigned long long i = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x;
  if (i < n) y[i] += a * x[i];
}
"""
COUNT = 1000


def checked(result):
    code, *values = result
    if code.value != 0:
        raise RuntimeError(f"{code.name}")
    return values[0] if len(values) == 1 else values


def compiled():
    program = checked(nvrtc.nvrtcCreateProgram(TEXT.encode(), b"saxpy.cu", 0, [], []))
    checked(nvrtc.nvrtcCompileProgram(program, 1, [b"--gpu-architecture=compute_80"]))
    ptx = b" " * checked(nvrtc.nvrtcGetPTXSize(program))
    checked(nvrtc.nvrtcGetPTX(program, ptx))
    return np.char.array(ptx)


def by_bindings(x, y):
    checked(driver.cuInit(0))
    device = checked(driver.cuDeviceGet(0))
    context = checked(driver.cuDevicePrimaryCtxRetain(device))
    checked(driver.cuCtxSetCurrent(context))
    ptx = compiled()
    module = checked(driver.cuModuleLoadData(ptx.ctypes.data))
    kernel = checked(driver.cuModuleGetFunction(module, b"saxpy"))
    stream = checked(driver.cuStreamCreate(0))
    at_x, at_y = (checked(driver.cuMemAlloc(each.nbytes)) for each in (x, y))
    checked(driver.cuMemcpyHtoDAsync(at_x, x.ctypes.data, x.nbytes, stream))
    checked(driver.cuMemcpyHtoDAsync(at_y, y.ctypes.data, y.nbytes, stream))
    arguments = ((2.0, int(at_x), int(at_y), COUNT),
                 (ctypes.c_float, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_ulonglong))
    checked(driver.cuLaunchKernel(kernel, 8, 1, 1, 128, 1, 1, 0, stream, arguments, 0))
    out = np.empty_like(y)
    checked(driver.cuMemcpyDtoHAsync(out.ctypes.data, at_y, out.nbytes, stream))
    checked(driver.cuStreamSynchronize(stream))
    for each in (at_x, at_y):
        checked(driver.cuMemFree(each))
    checked(driver.cuStreamDestroy(stream))
    checked(driver.cuModuleUnload(module))
    return out


def by_core(x, y):
    device = Device(0)
    device.set_current()
    stream = device.create_stream()
    program = Program(TEXT, code_type="c++", options=ProgramOptions(arch="compute_80"))
    kernel = program.compile("ptx").get_kernel("saxpy")
    room = [checked(driver.cuMemAlloc(each.nbytes)) for each in (x, y)]
    for to, each in zip(room, (x, y)):
        checked(driver.cuMemcpyHtoD(to, each.ctypes.data, each.nbytes))
    launch(stream, LaunchConfig(grid=8, block=128), kernel, np.float32(2), int(room[0]),
           int(room[1]), np.uint64(COUNT))
    stream.sync()
    out = np.empty_like(y)
    checked(driver.cuMemcpyDtoH(out.ctypes.data, room[1], out.nbytes))
    return out


def main():
    x = np.arange(COUNT, dtype=np.float32)
    y = np.ones(COUNT, dtype=np.float32)
    good = True
    for name, run in (("bindings", by_bindings), ("cuda.core", by_core)):
        right = bool((run(x, y) == 2 * x + 1).all())
        print(f"{name}: {'right' if right else 'WRONG'}")
        good &= right
    print("cuda_python:", "ok" if good else "WRONG")
    return 0 if good else 1


if __name__ == "__main__":
    raise SystemExit(main())
