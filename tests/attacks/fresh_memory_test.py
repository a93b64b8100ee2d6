#!/usr/bin/env python3
# Memory that a guest is given never shows what another guest had in it, whichever call gives it.
# SPDX-License-Identifier: Apache-2.0
"""Usage: fresh_memory_test.py BUILD GUEST"""
import pathlib
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "cli"))
from harness import BUILD, environment, expect, server  # noqa: E402

GUEST = sys.argv[2]
KINDS = 10
# Two guests hold most of the device, so that the second is given what the first had.
DEVICE, QUOTA = "160M", "96M"
HALF = "64M"


def arguments(address, what, memory, more):
    return {"args": [GUEST, str(BUILD / "lib/guest/libcuda.so.1"), what], "text": True,
            "env": environment(VGPU_SERVER=address, VGPU_MEM=memory, **more)}


def run(address, what, memory, more):
    """Once the memory of who has ended is to be had again."""
    for _ in range(100):
        result = subprocess.run(**arguments(address, what, memory, more), capture_output=True,
                                timeout=200, check=False)
        if "resource exhausted" not in result.stderr:
            break
        time.sleep(0.1)
    return result


def check(result, how):
    expect(result.returncode == 0, f"nothing of another guest's is seen: {how}", result)
    lines = [line for line in result.stdout.splitlines() if " blocks, " in line]
    expect(len(lines) == KINDS, f"all kinds were looked at: {len(lines)}", result)
    expect(": 0 blocks" not in lines[0], "and some memory was", result)


def one_after_the_other(address, more):
    for _ in range(2):
        left = run(address, "leave", QUOTA, more)
        expect(left.returncode == 0 and "ready" in left.stdout, "a guest leaves a pattern", left)
        check(run(address, "look", QUOTA, more), "it has ended")


def side_by_side(address, more):
    """The other guest is still there, and has freed all that it had."""
    with subprocess.Popen(**arguments(address, "keep", HALF, more), stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE) as other:
        seen = ""
        for line in other.stdout:
            seen = line
            if line == "ready\n":
                break
        expect(seen == "ready\n", "the other guest has freed its memory")
        check(run(address, "look", HALF, more), "it has freed all")
        other.communicate("\n", timeout=60)
        expect(other.returncode == 0, "and ends well")


def main():
    # A guest's memory, the driver's addresses, slabs that are lent.
    ways = [({}, {}), ({}, {"VGPU_ALLOCATOR": "forward"}), ({"VGPU_SOFTGPU_CONTRARY": "novmm"}, {})]
    for there, here in ways:
        with server("soft", VGPU_SOFTGPU_MEMORY=DEVICE, **there) as address:
            one_after_the_other(address, here)
            side_by_side(address, here)


if __name__ == "__main__":
    main()
