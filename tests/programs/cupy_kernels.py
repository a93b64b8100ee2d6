# CuPy: element-wise and reduction kernels, raw kernels and modules, what its own CUB and Thrust do.
# SPDX-License-Identifier: Apache-2.0
import cupy
import numpy as np

RAW = r"""
extern "C" __global__ void triple(const float* x, float* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 3 * x[i];
}
template <typename T> __global__ void fill(T* data, T value) {
  data[blockIdx.x * blockDim.x + threadIdx.x] = value;
}
"""


def say(name, good):
    print(f"{name}: {'right' if good else 'WRONG'}")
    return bool(good)


def main():
    host = np.arange(1000, dtype=np.float32)
    x = cupy.asarray(host)
    good = say("element-wise", (cupy.asnumpy(x * 2 + 1) == host * 2 + 1).all())
    squared = cupy.ElementwiseKernel("T x, T y", "T z", "z = (x - y) * (x - y)", "squared")
    good &= say("ElementwiseKernel", (cupy.asnumpy(squared(x, x[::-1])) ==
                                      (host - host[::-1]) ** 2).all())
    norm = cupy.ReductionKernel("T x", "T y", "x * x", "a + b", "y = a", "0", "squared_norm")
    good &= say("ReductionKernel", float(norm(x[:100])) == float((host[:100] ** 2).sum()))
    y = cupy.zeros_like(x)
    cupy.RawKernel(RAW.split("template")[0], "triple")((8,), (128,), (x, y, np.int32(1000)))
    good &= say("RawKernel", (cupy.asnumpy(y) == 3 * host).all())
    module = cupy.RawModule(code=RAW, name_expressions=("fill<double>",), options=("-std=c++17",))
    filled = cupy.zeros(256, dtype=cupy.float64)
    module.get_function("fill<double>")((2,), (128,), (filled, np.float64(2.5)))
    good &= say("RawModule", (cupy.asnumpy(filled) == 2.5).all())
    good &= say("sum, largest (CUB)", float(x.sum()) == 499500 and int(x.argmax()) == 999)
    good &= say("running sum (CUB)", (cupy.asnumpy(cupy.cumsum(x)) == np.cumsum(host)).all())
    keys = np.random.default_rng(3).integers(0, 10000, 3000)
    good &= say("sort (Thrust)", (cupy.asnumpy(cupy.sort(cupy.asarray(keys))) ==
                                  np.sort(keys)).all())
    good &= say("where, take", (cupy.asnumpy(cupy.where(x > 500, x, -x)) ==
                                np.where(host > 500, host, -host)).all())
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        z = x + 5
    stream.synchronize()
    good &= say("stream", (cupy.asnumpy(z) == host + 5).all())
    print("cupy:", "ok" if good else "WRONG")
    return 0 if good else 1


if __name__ == "__main__":
    raise SystemExit(main())
