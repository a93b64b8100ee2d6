#!/usr/bin/env python3
# Runs the histogram application with a profile wanted: the file must tell what its kernels did.
# SPDX-License-Identifier: Apache-2.0
"""Usage: profile_test.py --build BUILD APP"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

RUN_SECONDS_MAX = 80


def check(condition, what):
    if not condition:
        sys.exit(f"profile: {what}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("app")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "profile"
        vgpu = str(options.build / "bin/vgpu")
        done = subprocess.run([vgpu, "run", "--kernel-profile", path.name, "--", options.app],
                              cwd=folder,
                              timeout=RUN_SECONDS_MAX, check=False, stdout=subprocess.DEVNULL)
        check(done.returncode == 0, f"the application ends with {done.returncode}")
        table = path.read_text()
        profile = json.loads((path.parent / "profile.json").read_text())
    kernels = {kernel["kernel"]: kernel for kernel in profile["kernels"]}
    shared = [k for name, k in kernels.items() if "count_shared" in name]
    check(len(shared) == 1, f"no count_shared among {sorted(kernels)}")
    kernel = shared[0]
    check(kernel["launches"] >= 1 and kernel["elapsed_ns"] > 0, "no time")
    check(kernel["shared_requests"] > 0, "no shared accesses")
    check(kernel["global_requests"] > 0, "no global accesses")
    check(kernel["warp_instructions"]["atomic"] > 0, "no atomics")
    check(0 < kernel["lane_efficiency"] <= 1, "lane efficiency out of range")
    check(0 < kernel["theoretical_occupancy"] <= 1, "occupancy out of range")
    check(0 < kernel["achieved_occupancy"] <= 1, "achieved occupancy out of range")
    check(len(profile["launches"]) == sum(k["launches"] for k in profile["kernels"]),
          "launches and kernels disagree")
    check("count_shared" in table and "instructions:" in table, "the table lacks the kernel")


if __name__ == "__main__":
    main()
