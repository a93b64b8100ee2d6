#!/usr/bin/env python3
# cuDriverGetVersion of a guest that never calls cuInit: the server's driver's version.
# SPDX-License-Identifier: Apache-2.0
import subprocess
import sys
import time

from harness import BUILD, HANG_SECONDS, environment, expect, json_of, server, vgpu

MEMORY_DRIVER = BUILD / "lib/memory_driver/libcuda.so.1"
GUEST = str(BUILD / "lib/guest/libcuda.so.1")

ASK = """
import ctypes, os
cuda, version = ctypes.CDLL("libcuda.so.1"), ctypes.c_int()
assert cuda.cuDriverGetVersion(ctypes.byref(version)) == 0
print(version.value, flush=True)
child = os.fork()
if child == 0:
    os._exit(cuda.cuInit(0))
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def ask(address):
    """What the program printed: the version, then what cuInit gave in a forked child."""
    env = environment(LD_PRELOAD=GUEST, VGPU_SERVER=address)
    return subprocess.run([sys.executable, "-c", ASK], env=env, text=True, capture_output=True,
                          stdin=subprocess.DEVNULL, timeout=HANG_SECONDS)


def no_guest_stays(address):
    """Whether the server has forgotten the child, which it hears of after it has ended."""
    deadline = time.monotonic() + 2
    while json_of(vgpu("info", "--json", "--server", address))["guests"]:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def main():
    with server(MEMORY_DRIVER, MEMORY_DRIVER_VERSION="12080") as address:
        result = ask(address)
        expect(result.stdout == "12080\n0\n",
               "the server's version without cuInit, and a child that may still begin", result)
        expect(no_guest_stays(address), "asking made no guest that stays")
    result = ask("unix:/nonexistent/vgpud.sock")
    version, init = result.stdout.split()
    expect(int(version) >= 13000 and int(init) == 100,
           "no server: the version of the build, and cuInit says that there is no device", result)


if __name__ == "__main__":
    main()
