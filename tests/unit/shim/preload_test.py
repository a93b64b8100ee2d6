#!/usr/bin/env python3
# Preloaded into programs that never call CUDA the shim does nothing; and it needs libc only.
# SPDX-License-Identifier: Apache-2.0
"""Usage: preload_test.py LIBCUDA READELF"""
import os
import re
import subprocess
import sys

LIBC = {"libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}
LOOK = ("import os\n"
        "print(len(os.listdir('/proc/self/task')), sorted(os.readlink('/proc/self/fd/' + f)"
        " for f in os.listdir('/proc/self/fd') if os.path.exists('/proc/self/fd/' + f))[3:])\n"
        # No range for device memory is claimed; other addresses differ from run to run.
        "print(any(m.startswith('200000000000-') for m in open('/proc/self/maps')))\n")
PROGRAMS = [
    ["bash", "-c", "for i in 1 2 3; do echo $i; done; (echo child); exit 7"],
    ["ls", "/"],
    [sys.executable, "-c", "print(sum(range(10)))"],
    [sys.executable, "-c", LOOK],
    [sys.executable, "-c",
     "import os; p = os.fork(); os._exit(3) if p == 0 else print(os.wait()[1])"],
]


def run(command, preload):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("VGPU_", "LD_PRELOAD"))}
    # A server that does not exist: whoever connects complains on stderr.
    env["VGPU_SERVER"] = "unix:/nonexistent/vgpu"
    if preload:
        env["LD_PRELOAD"] = preload
    done = subprocess.run(command, env=env, capture_output=True, timeout=60, check=False)
    return done.returncode, done.stdout, done.stderr


def main():
    library, readelf = sys.argv[1:]
    faults = []
    for command in PROGRAMS:
        plain, with_shim = run(command, None), run(command, library)
        if plain != with_shim:
            faults.append(f"{command}: {plain} became {with_shim}")
    # A CUDA call without a server: CUDA_ERROR_NO_DEVICE and one line that names the address.
    code = f"import ctypes; print(ctypes.CDLL({library!r}).cuInit(0))"
    status, out, err = run([sys.executable, "-c", code], library)
    if status != 0 or out != b"100\n" or err.count(b"\n") != 1 or b"/nonexistent/vgpu" not in err:
        faults.append(f"no server: {status} {out} {err}")
    dynamic = subprocess.run([readelf, "-d", library], capture_output=True, text=True,
                             check=True).stdout
    needed = set(re.findall(r"NEEDED.*\[(.*)\]", dynamic))
    if not needed <= LIBC:
        faults.append(f"needs more than libc: {sorted(needed - LIBC)}")
    if re.findall(r"SONAME.*\[(.*)\]", dynamic) != ["libcuda.so.1"]:
        faults.append("SONAME is not libcuda.so.1")
    for fault in faults:
        print("fault:", fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
