# PyCUDA: kernels of nvcc, arrays, element-wise and reduction kernels, streams and events.
# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pycuda.autoinit  # noqa: F401  pylint: disable=unused-import
import pycuda.compiler
import pycuda.driver as cuda

compile_source = pycuda.compiler.compile


def compile_to_text(*arguments, **more):
    """PyCUDA asks nvcc for machine code of the device; PTX is what the software GPU runs."""
    return compile_source(*arguments, **more, target="ptx") + b"\0"


pycuda.compiler.compile = compile_to_text

# After that, since these import what they use of the module above.
from pycuda import gpuarray  # noqa: E402
from pycuda.elementwise import ElementwiseKernel  # noqa: E402
from pycuda.reduction import ReductionKernel  # noqa: E402

TEXT = r"""
__constant__ float scale;
__global__ void add(float *c, const float *a, const float *b, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) c[i] = a[i] + b[i];
}
__global__ void scaled(float *c, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) c[i] *= scale;
}
"""
COUNT = 10000
SHAPE = {"block": (256, 1, 1), "grid": ((COUNT + 255) // 256, 1)}


def said(what, good):
    print(f"{what}: {'right' if good else 'WRONG'}")
    if not good:
        raise SystemExit(1)


def vectors(module, a, b):
    c = np.empty_like(a)
    module.get_function("add")(cuda.Out(c), cuda.In(a), cuda.In(b), np.int32(COUNT), **SHAPE)
    said("vector addition", np.array_equal(c, a + b))


def prepared(module, a):
    """A constant, a prepared call in a stream, events."""
    address, size = module.get_global("scale")
    said("a constant's size", size == 4)
    cuda.memcpy_htod(address, np.float32(3))
    stream, began, ended = cuda.Stream(), cuda.Event(), cuda.Event()
    device = cuda.mem_alloc(a.nbytes)
    host = cuda.pagelocked_empty_like(a)
    host[:] = a
    cuda.memcpy_htod_async(device, host, stream)
    began.record(stream)
    kernel = module.get_function("scaled").prepare("Pi")
    kernel.prepared_async_call(SHAPE["grid"], SHAPE["block"], stream, device, COUNT)
    ended.record(stream)
    cuda.memcpy_dtoh_async(host, device, stream)
    stream.synchronize()
    said("a prepared call", np.array_equal(host, 3 * a))
    said("times of events", ended.time_since(began) >= 0)


def arrays(a, b):
    x, y = gpuarray.to_gpu(a), gpuarray.to_gpu(b)
    said("arrays", np.array_equal((x + 2 * y).get(), a + 2 * b))
    said("a sum", gpuarray.sum(x).get() == a.sum())
    out = gpuarray.empty_like(x)
    ElementwiseKernel("float *o, const float *x, const float *y", "o[i] = x[i] * y[i]")(out, x, y)
    said("an element-wise kernel", np.array_equal(out.get(), a * b))
    dot = ReductionKernel(np.float32, "0", "a + b", "x[i] * y[i]", "const float *x, const float *y")
    said("a reduction", np.isclose(dot(x, y).get(), float(a @ b)))


def main():
    a = np.arange(COUNT, dtype=np.float32) % 16
    b = np.arange(COUNT, dtype=np.float32) % 7
    module = pycuda.compiler.SourceModule(TEXT, arch="compute_75", cache_dir=False)
    vectors(module, a, b)
    prepared(module, a)
    arrays(a, b)


if __name__ == "__main__":
    main()
