#!/usr/bin/env python3
# Every limit of a profile that a guest can meet, with a guest that goes beyond it.
# SPDX-License-Identifier: Apache-2.0
"""Usage: limits_test.py BUILD GUEST SOURCES"""
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "cli"))
from harness import BUILD, environment, expect, server  # noqa: E402

GUEST = sys.argv[2]
SOURCES = pathlib.Path(sys.argv[3])
# What stands in the profile, and how many of what the guest makes that is.
LIMITS = {"streams": ("5", 5), "events": ("7", 7), "modules": ("3", 3), "handles": ("13", 13),
          "pinned_memory": ('"6M"', 6), "launch_seconds": ("0.5", 0)}
# These make guests wait: that they go on is shown here.
WAIT = {"queued_bytes": '"1M"', "threads": "16"}


def main():
    names = set(re.findall(r'\{"(\w+)", "', (SOURCES / "protocol/guest_limits.h").read_text()))
    expect(names == set(LIMITS) | set(WAIT), f"every limit is tried: {sorted(names)}")
    with tempfile.TemporaryDirectory(prefix="vgpu-limits-") as folder:
        config = pathlib.Path(folder) / "vgpud.toml"
        profiles = {name: [f"{name} = {value}"] for name, (value, _) in LIMITS.items()}
        profiles["wait"] = [f"{name} = {value}" for name, value in WAIT.items()]
        config.write_text("".join(f"[profile.{name}]\n" + "".join(f"{line}\n" for line in lines)
                                  for name, lines in profiles.items()))
        with server("soft", "--config", str(config), VGPU_SOFTGPU_MEMORY="1G") as address:
            for name, (_, most) in LIMITS.items():
                run(address, name, name, most)
                run(address, name, "wait", 64)


def run(address, limit, profile, most):
    if profile == "wait" and limit == "launch_seconds":
        return
    result = subprocess.run(
        [GUEST, str(BUILD / "lib/guest/libcuda.so.1"), limit, str(most)], text=True,
        capture_output=True, timeout=120,
        env=environment(VGPU_SERVER=address, VGPU_PROFILE=profile))
    if profile == "wait":  # without a limit of its own nothing is refused
        expect(result.returncode == 1 and "one too many: got 0" in result.stdout,
               f"no {limit} of its own", result)
    else:
        expect(result.returncode == 0, f"the limit of {limit}", result)


if __name__ == "__main__":
    main()
