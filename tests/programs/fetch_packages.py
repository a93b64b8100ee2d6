#!/usr/bin/env python3
# Takes the Python packages of the test programs, in fixed versions, into a venv in the build.
# SPDX-License-Identifier: Apache-2.0
"""Usage: fetch_packages.py INTO [programs|monitors|pycuda]

INTO/bin/python then runs Numba, CuPy and cuda-python (about 400 MB are taken the first time),
programs that show what a GPU does (3 MB), or PyCUDA (30 MB), which is compiled against the toolkit
whose nvcc is the first in PATH. What is there already, in the versions below, is kept.
Exit code 77 when there is no network: the tests then report themselves as skipped. Exit code 1
when the network is there and a package is not.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import venv

# NVIDIA's compilers are those of CUDA 13.0: newer ones write PTX for newer drivers.
PACKAGES = [
    "numpy==2.4.6", "numba==0.68.1", "llvmlite==0.50.0", "numba-cuda==0.30.4",
    "cuda-bindings==13.4.4", "cuda-core==1.2.2", "cuda-pathfinder==1.9.1", "packaging==26.4",
    "cupy-cuda13x==14.2.0", "nvidia-nvvm==13.0.88", "nvidia-cuda-nvrtc==13.0.88",
    "nvidia-cuda-runtime==13.0.96",
]
MONITORS = [
    "nvidia-ml-py==13.615.71", "gpustat==1.1.1", "nvitop==1.7.2", "blessed==1.52.0",
    "jinxed==2.1.0", "wcwidth==0.9.4", "psutil==7.2.2",
]
PYCUDA_NEEDS = [
    "numpy==2.4.6", "pytools==2026.1.1", "siphash24==1.9", "platformdirs==4.14.9", "mako==1.4.3",
    "markupsafe==3.0.4", "typing-extensions==4.16.0", "packaging==26.4",
    "setuptools==84.2.1", "wheel==0.48.0",
]
PYCUDA = ["pycuda==2026.1"]  # there are no wheels of it
KINDS = {"programs": PACKAGES, "monitors": MONITORS, "pycuda": PYCUDA_NEEDS + PYCUDA}
SECONDS_MAX = 800
EXIT_SKIPPED = 77
NO_NETWORK = re.compile(r"connection broken by|Max retries exceeded|name resolution|timed out|"
                        r"Connection(Error|Refused|Reset)|Network is unreachable")


def toolkit_environment():
    """Where PyCUDA's own build finds headers and the library to link with."""
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        return dict(os.environ)
    root = pathlib.Path(nvcc).resolve().parents[1]
    return dict(os.environ, CUDA_ROOT=str(root), CPATH=str(root / "include"),
                LIBRARY_PATH=f"{root}/lib64/stubs:{root}/lib64")


def install(folder, packages, *more):
    """What pip says when it fails, else nothing."""
    command = [str(folder / "bin/python"), "-m", "pip", "install", "--quiet", "--no-deps",
               "--no-compile", "--disable-pip-version-check", "--only-binary", ":all:",
               "--no-binary", "gpustat,pycuda",  # there are no wheels of them
               "--retries", "1", "--timeout", "20", *more, *packages]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=SECONDS_MAX, check=False, env=toolkit_environment())
    except subprocess.TimeoutExpired:
        return f"timed out after {SECONDS_MAX} s"
    return "" if done.returncode == 0 else (done.stderr or done.stdout or "no reason given")


def main():
    kind = sys.argv[2] if len(sys.argv) == 3 else "programs"
    if len(sys.argv) not in (2, 3) or kind not in KINDS:
        sys.exit(__doc__)
    packages = KINDS[kind]
    folder = pathlib.Path(sys.argv[1])
    note = folder / "packages.txt"
    if note.exists() and note.read_text().split() == packages:
        print("packages: all there")
        return
    print(f"packages: taking {', '.join(packages)} ...", flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    venv.create(folder, with_pip=True)
    if kind == "pycuda":
        failure = install(folder, PYCUDA_NEEDS) or install(folder, PYCUDA, "--no-build-isolation")
    else:
        failure = install(folder, packages)
    if failure:
        shutil.rmtree(folder, ignore_errors=True)
        last = failure.strip().splitlines()[-1]
        if NO_NETWORK.search(failure):
            print(f"skipped: the packages of Python programs could not be had ({last})")
            sys.exit(EXIT_SKIPPED)
        sys.exit(f"the packages of Python programs could not be installed: {last}")
    note.write_text("\n".join(packages) + "\n")
    print("packages: all there")


if __name__ == "__main__":
    main()
