# Numba: addition, a reduction in shared memory, a tiled matrix product, atomics, a stream.
# SPDX-License-Identifier: Apache-2.0
import warnings

import numpy as np
from numba import cuda, float32, int32

warnings.simplefilter("ignore")
TILE = 16


@cuda.jit
def add(a, b, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = a[i] + b[i]


@cuda.jit
def block_sums(data, out):
    room = cuda.shared.array(128, int32)
    i = cuda.grid(1)
    room[cuda.threadIdx.x] = data[i] if i < data.size else 0
    cuda.syncthreads()
    step = cuda.blockDim.x // 2
    while step > 0:
        if cuda.threadIdx.x < step:
            room[cuda.threadIdx.x] += room[cuda.threadIdx.x + step]
        cuda.syncthreads()
        step //= 2
    if cuda.threadIdx.x == 0:
        out[cuda.blockIdx.x] = room[0]


@cuda.jit
def product(a, b, c):
    left = cuda.shared.array((TILE, TILE), float32)
    right = cuda.shared.array((TILE, TILE), float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    row = cuda.blockIdx.y * TILE + y
    column = cuda.blockIdx.x * TILE + x
    total = float32(0)
    for tile in range(a.shape[1] // TILE):
        left[y, x] = a[row, tile * TILE + x]
        right[y, x] = b[tile * TILE + y, column]
        cuda.syncthreads()
        for k in range(TILE):
            total += left[y, k] * right[k, x]
        cuda.syncthreads()
    c[row, column] = total


@cuda.jit
def histogram(data, bins, largest):
    i = cuda.grid(1)
    if i < data.size:
        cuda.atomic.add(bins, data[i] % bins.size, 1)
        cuda.atomic.max(largest, 0, data[i])


@cuda.reduce
def total(a, b):
    return a + b


def say(name, good):
    print(f"{name}: {'right' if good else 'WRONG'}")
    return bool(good)


def main():
    random = np.random.default_rng(7)
    a = np.arange(1000, dtype=np.float32)
    out = np.zeros_like(a)
    add[8, 128](a, 2 * a, out)
    good = say("addition", (out == 3 * a).all())
    numbers = random.integers(0, 1000, 4000, dtype=np.int32)
    sums = np.zeros(32, dtype=np.int32)
    block_sums[32, 128](numbers, sums)
    good &= say("reduction", sums.sum() == numbers.sum())
    good &= say("cuda.reduce", total(numbers) == numbers.sum())
    left = random.integers(-5, 5, (64, 48)).astype(np.float32)
    right = random.integers(-5, 5, (48, 32)).astype(np.float32)
    result = np.zeros((64, 32), dtype=np.float32)
    stream = cuda.stream()
    device = [cuda.to_device(each, stream=stream) for each in (left, right, result)]
    product[(2, 4), (TILE, TILE), stream](*device)
    device[2].copy_to_host(result, stream=stream)
    stream.synchronize()
    good &= say("matrix product", (result == left @ right).all())
    bins, largest = np.zeros(10, dtype=np.int32), np.zeros(1, dtype=np.int32)
    histogram[32, 128](numbers, bins, largest)
    good &= say("atomics", (bins == np.bincount(numbers % 10)).all() and
                largest[0] == numbers.max())
    print("numba:", "ok" if good else "WRONG")
    return 0 if good else 1


if __name__ == "__main__":
    raise SystemExit(main())
