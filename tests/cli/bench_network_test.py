#!/usr/bin/env python3
# vgpu bench network measures all of its rows; what is counted does not depend on the machine.
# SPDX-License-Identifier: Apache-2.0
import json
import pathlib
import tempfile

from harness import expect, vgpu

# In all: a sign of life may fall into the count on a slow machine.
TRIPS_MAX = {"round trips, attach to first kernel": 4, "the same, with connecting and CURVE": 12,
             "round trips of copy in, launch, copy out": 1}


def main():
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "rows.json"
        result = vgpu("bench", "network", "--quick", "--json", str(file), seconds=250)
        expect(result.returncode == 0, "the bench ends well", result)
        rows = {row["what"]: row["ours"] for row in json.loads(file.read_text())}
    for what, most in TRIPS_MAX.items():
        expect(0 < rows[what] <= most, f"{what}: {rows[what]:g}, at most {most}")
    expect(len(rows) >= 14, f"{len(rows)} rows")


if __name__ == "__main__":
    main()
