# Prints as JSON what pynvml says; with "guest", also after this process has become a guest.
# SPDX-License-Identifier: Apache-2.0
import ctypes
import json
import sys

import pynvml


def text(value):
    return value.decode() if isinstance(value, bytes) else value


def refused(function, *arguments):
    """The number of NVML's error."""
    try:
        function(*arguments)
    except pynvml.NVMLError as error:
        return error.value
    return 0


def read():
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)
    memory = pynvml.nvmlDeviceGetMemoryInfo(handle)
    utilization = pynvml.nvmlDeviceGetUtilizationRates(handle)
    return {
        "name": text(pynvml.nvmlDeviceGetName(handle)),
        "uuid": text(pynvml.nvmlDeviceGetUUID(handle)),
        "pci": text(pynvml.nvmlDeviceGetPciInfo(handle).busId),
        "capability": list(pynvml.nvmlDeviceGetCudaComputeCapability(handle)),
        "total": memory.total, "used": memory.used, "free": memory.free,
        "gpu": utilization.gpu, "memory": utilization.memory,
        "processes": {p.pid: p.usedGpuMemory
                      for p in pynvml.nvmlDeviceGetComputeRunningProcesses(handle)},
        "graphics": len(pynvml.nvmlDeviceGetGraphicsRunningProcesses(handle)),
        "temperature": refused(pynvml.nvmlDeviceGetTemperature, handle, 0),
        "power": refused(pynvml.nvmlDeviceGetPowerUsage, handle),
    }


def main():
    pynvml.nvmlInit()
    answer = {
        "count": pynvml.nvmlDeviceGetCount(),
        "driver": text(pynvml.nvmlSystemGetDriverVersion()),
        "cuda": pynvml.nvmlSystemGetCudaDriverVersion(),
        "before": read(),
    }
    if "guest" in sys.argv:
        cuda = ctypes.CDLL("libcuda.so.1")
        version, total = ctypes.c_int(), ctypes.c_size_t()
        assert cuda.cuInit(0) == 0
        assert cuda.cuDeviceTotalMem_v2(ctypes.byref(total), 0) == 0
        assert cuda.cuDriverGetVersion(ctypes.byref(version)) == 0
        pynvml.nvmlShutdown()
        pynvml.nvmlInit()
        answer.update(cuda_total=total.value, cuda_version=version.value, after=read())
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main()
