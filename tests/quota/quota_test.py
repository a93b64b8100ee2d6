#!/usr/bin/env python3
# Every call that takes device memory, at the edge of the quota, in every way of allocating; and
# that none is forgotten.
# SPDX-License-Identifier: Apache-2.0
"""Usage: quota_test.py BUILD GUEST SOURCES"""
import pathlib
import re
import subprocess
import sys
import tomllib

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "cli"))
from harness import BUILD, environment, expect, server  # noqa: E402

GUEST = sys.argv[2]
SOURCES = pathlib.Path(sys.argv[3])
QUOTA = 24 << 20

# What a name or an out-parameter makes suspect of taking device memory.
SUSPECT_NAME = re.compile(
    r"Alloc|Create|Load|Import|Open|Instantiate|Clone|Reserve|Retain|Register|GetMappedBuffer"
    r"|AddNode|GetLevel|SetLimit")
SUSPECT_RESULT = re.compile(
    r"^(CUdeviceptr|CUarray|CUmipmappedArray|CUmemGenericAllocationHandle|CUmemoryPool|CUmodule"
    r"|CUlibrary|CUgraphExec|CUcontext|CUstream|CUevent|CUlinkState|CUexternalMemory|CUtexObject"
    r"|CUsurfObject|void \*) ?\*")

# Served, suspect, and without effect on the quota of device memory.
COUNTS_NOTHING = {
    "host memory":
        """cuMemHostAlloc cuMemAllocHost cuMemAllocHost_v2 cuMemHostRegister_v2
        cuMemHostGetDevicePointer_v2 cuMemAllocManaged""",
    "counted when it was made, by whoever made it; tests/lifecycle/sharing_test.cc has "
    "other processes' memory":
        """cuIpcOpenMemHandle_v2 cuIpcOpenEventHandle cuMemImportFromShareableHandle
        cuMemPoolImportFromShareableHandle cuMemPoolImportPointer
        cuMemRetainAllocationHandle cuImportExternalMemory cuExternalMemoryGetMappedBuffer
        cuMipmappedArrayGetLevel cuArrayGetPlane""",
    "the same as cuModuleLoadData and cuLibraryLoadData, or about what these have loaded":
        """cuModuleLoad cuModuleLoadDataEx cuModuleLoadFatBinary
        cuModuleGetLoadingMode cuModuleGetGlobal_v2 cuLibraryLoadFromFile
        cuLibraryGetGlobal cuLibraryGetManaged cuLibraryGetModule cuLibraryGetUnifiedFunction
        cuKernelGetLibrary cuFuncGetModule cuFuncIsLoaded cuFuncLoad cuLinkCreate_v2""",
    "objects without memory of ours, bounded by number":
        """cuStreamCreate cuStreamCreateWithPriority cuEventCreate cuTexObjectCreate
        cuSurfObjectCreate cuUserObjectCreate cuUserObjectRetain cuGraphRetainUserObject
        cuDeviceRegisterAsyncNotification cuLogsRegisterCallback""",
    "contexts and their limits: the driver's own (docs/tenants.md)":
        """cuCtxCreate_v2 cuCtxCreate_v3 cuCtxCreate_v4 cuCtxAttach cuCtxGetCurrent
        cuCtxPopCurrent_v2 cuGreenCtxCreate cuGreenCtxStreamCreate cuCtxFromGreenCtx
        cuCtxSetLimit cuDevicePrimaryCtxRetain""",
    "graphs: memory comes with their allocation nodes":
        """cuGraphCreate cuGraphClone cuGraphNodeFindInClone cuGraphInstantiate
        cuGraphInstantiate_v2 cuGraphInstantiateWithFlags cuGraphInstantiateWithParams
        cuGraphMemAllocNodeGetParams cuGraphConditionalHandleCreate cuGraphAddNode
        cuGraphAddNode_v2""",
    "addresses and questions":
        """cuMemAddressReserve cuMemGetAllocationGranularity
        cuMemGetAllocationPropertiesFromHandle cuMemGetAddressRange_v2
        cuMemRangeGetAttributes cuDeviceGetDefaultMemPool cuDeviceGetMemPool
        cuMemGetDefaultMemPool cuMemGetMemPool cuMemPoolCreate cuGetExportTable""",
    "copies and hints":
        """cuMemcpyBatchAsync cuMemcpyBatchAsync_v2 cuMemPrefetchBatchAsync
        cuMemDiscardBatchAsync cuMemDiscardAndPrefetchBatchAsync""",
}


def served():
    """Name and C parameters of every function that guests are served."""
    for path in sorted((SOURCES / "api/spec").glob("*.toml")):
        for name, entry in tomllib.loads(path.read_text()).items():
            if name.startswith("cu") and isinstance(entry, dict) and "c" in entry:
                yield name, entry["c"]


def check_that_none_is_forgotten(tried):
    nothing = {name for names in COUNTS_NOTHING.values() for name in names.split()}
    known = dict(served())
    suspects = {name for name, parameters in known.items()
                if SUSPECT_NAME.search(name) or SUSPECT_RESULT.search(parameters)}
    missing = sorted(suspects - tried - nothing)
    expect(not missing, f"every call that may take memory is in a table; missing: {missing}")
    stale = sorted((nothing | tried) - set(known))
    expect(not stale, f"the tables name functions that are served; not served: {stale}")
    both = sorted(nothing & tried)
    expect(not both, f"no function is in both tables: {both}")


def run_guest(address, what, **more):
    result = subprocess.run(
        [GUEST, str(BUILD / "lib/guest/libcuda.so.1")], text=True, capture_output=True, timeout=300,
        env=environment(VGPU_SERVER=address, VGPU_MEM=str(QUOTA), **more))
    expect(result.returncode == 0, f"quotas are exact: {what}", result)


def main():
    text = (SOURCES / "tests/quota/quota_guest.cc").read_text()
    tried = set(re.findall(r'\{"(cu\w+)", ', text))
    expect(len(tried) >= 9, f"the guest's table: {len(tried)} calls")
    check_that_none_is_forgotten(tried)
    with server("soft", VGPU_SOFTGPU_MEMORY="1G") as address:
        run_guest(address, "the guest chooses addresses", QUOTA_TEST_MAPS="1")
        run_guest(address, "every allocation is the driver's", VGPU_ALLOCATOR="forward")
    with server("soft", VGPU_SOFTGPU_MEMORY="1G", VGPU_SOFTGPU_CONTRARY="novmm") as address:
        run_guest(address, "slabs are lent", QUOTA_TEST_SLABS="1")


if __name__ == "__main__":
    main()
