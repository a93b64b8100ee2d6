#!/usr/bin/env python3
# What a virtual machine's programs pay, beside the ring alone in the same machine.
# SPDX-License-Identifier: Apache-2.0
"""Usage: bench.py BUILD [plain|doorbell|interrupts]"""
import json
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "cli")]
import guest
from harness import BUILD, environment, server
from machine_test import Machine

MEASURE = """
say raw "$(/apps/raw guest ivshmem:)"
say ours "$(vgpu run -- /apps/bench calls 1)"
"""
APPS = [(BUILD / "tests/vm/vgpu_vm_raw", "/apps/raw"),
        (BUILD / "lib/bench/vgpu-bench-guest", "/apps/bench")]
ROWS = [("launches, back to back", "launch_records_per_s", "raw_records_per_s", "M/s", 1e-6),
        ("synchronous call, back to back", "trip_busy_ns", "raw_trip_busy_ns", "us", 1e-3),
        ("synchronous call after 2 ms of idleness", "trip_idle_ns", "raw_trip_idle_ns", "us", 1e-3)]


def main():
    kind = sys.argv[2] if len(sys.argv) > 2 else "plain"
    null = BUILD / "lib/bench/libcuda-null.so"
    with server(null) as host, tempfile.TemporaryDirectory(prefix="vgpu-vm-") as folder:
        package = f"{folder}/guest.tar.gz"
        subprocess.run([sys.executable, HERE.parents[1] / "tools/guest_package.py", BUILD, package],
                       check=True, stdout=subprocess.DEVNULL)
        machine = Machine(host, folder, "bench", kind, MEASURE, package, APPS)
        raw = subprocess.Popen([str(BUILD / "tests/vm/vgpu_vm_raw"), "host",
                                f"/proc/{machine.vm.pid}/fd/{region_of(machine.vm.pid)}"],
                               env=environment(), stdout=subprocess.DEVNULL)
        try:
            said = dict(line.split(" ", 1) for line in machine.wait())
        finally:
            raw.kill()
            raw.wait()
            sys.stderr.write(machine.output)
    figures = {**json.loads(said["raw"]), **json.loads(said["ours"])}
    print(f"{'virtual machine, ivshmem, ' + kind:44}{'vGPU':>12}{'ring alone':>12}")
    for what, ours, alone, unit, scale in ROWS:
        print(f"{what:44}{figures[ours] * scale:8.2f} {unit:3}{figures[alone] * scale:8.2f} {unit}")


def region_of(pid):
    """The descriptor of a vgpu-vm that is its region."""
    for link in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        if "memfd:vgpu-vm" in str(link.readlink()):
            return link.name
    raise AssertionError("vgpu-vm has no region")


if __name__ == "__main__":
    main()
