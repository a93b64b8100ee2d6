#!/usr/bin/env python3
# A further device costs a guest one round trip more than its work does, and only when it is used.
# SPDX-License-Identifier: Apache-2.0
"""Usage: device_counts_test.py --build BUILD APP (tests/apps/each_device)"""
import argparse
import json
import os
import pathlib
import sys
import tempfile

import run_app

DEVICES = 3
TRIPS_EACH = 3  # attributes, its context, and the first use of a kernel there


def run(build, server, app, devices, visible=None):
    """Round trips of a guest but those for credit, and what it has printed."""
    with tempfile.TemporaryDirectory(prefix="vgpu-counts-") as folder:
        path = pathlib.Path(folder) / "stats.json"
        env = run_app.environment(build, VGPU_STATS=str(path))
        if visible is not None:
            env["CUDA_VISIBLE_DEVICES"] = visible
        command = [str(build / "bin/vgpu"), "run", "--server", server.address,
                   "--devices", devices, "--", app]
        code, out, errors = run_app.run(command, env)
        if code != 0:
            server.show_log()
            sys.exit(f"exit code {code}: {(out + errors).decode(errors='replace')}")
        stats = json.loads(path.read_text().splitlines()[-1])
        # Credit is made ahead at the worker's own pace; a guest that is quicker asks for it.
        asked = stats["round_trips_by_op"].get("MemCredit", 0)
        return stats["round_trips"] - asked, out.decode()


def expect_devices(text, count):
    if f"{count} devices" not in text:
        sys.exit(f"{count} devices were expected: {text}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("app")
    arguments = parser.parse_args()
    build = arguments.build.resolve()
    os.environ["VGPU_SOFTGPU_DEVICES"] = str(DEVICES)
    with run_app.Server(build) as server:
        one, text = run(build, server, arguments.app, "0")
        expect_devices(text, 1)
        last, text = run(build, server, arguments.app, "2")
        expect_devices(text, 1)
        three, text = run(build, server, arguments.app, "0,1,2")
        expect_devices(text, DEVICES)
        _, text = run(build, server, arguments.app, "2,1", visible="1,7,0")
        expect_devices(text, 1)
        _, text = run(build, server, arguments.app, "all", visible="1,0")
        expect_devices(text, 2)
    with run_app.Server(build, "--devices", "2,0", "--guest-devices", "1") as server:
        _, text = run(build, server, arguments.app, "all")
        expect_devices(text, 1)
        _, text = run(build, server, arguments.app, "1,0")
        expect_devices(text, 2)
        code, info, _ = run_app.run(
            [str(build / "bin/vgpu"), "info", "--json", "--server", server.address],
            run_app.environment(build))
        shared = [each["pci_bus_id"] for each in json.loads(info)["devices"]]
        if code != 0 or shared != ["0000:03:00.0", "0000:01:00.0"]:
            sys.exit(f"vgpu info says {shared}")
    print(f"round trips: {one} with one device, {last} with another one, {three} with three")
    if last != one:
        sys.exit("which device a guest has is to change nothing")
    if three - one > TRIPS_EACH * (DEVICES - 1):
        sys.exit(f"a further device is to cost {TRIPS_EACH} round trips")


if __name__ == "__main__":
    main()
