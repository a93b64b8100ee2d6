#!/usr/bin/env python3
# A graph of 1,000 kernels costs a guest one record a launch, and no round trip.
# SPDX-License-Identifier: Apache-2.0
"""Usage: graph_counts_test.py --build BUILD APP (tests/apps/graphs)"""
import argparse
import json
import pathlib
import sys
import tempfile

import run_app

LAUNCHES = (1, 101)


def counts(build, server, app, launches):
    with tempfile.TemporaryDirectory(prefix="vgpu-counts-") as folder:
        path = pathlib.Path(folder) / "stats.json"
        command = [str(build / "bin/vgpu"), "run", "--server", server.address, "--", app,
                   str(launches)]
        code, out, errors = run_app.run(command, run_app.environment(build, VGPU_STATS=str(path)))
        if code != 0:
            server.show_log()
            sys.exit(f"exit code {code}: {(out + errors).decode(errors='replace')}")
        return json.loads(path.read_text().splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("app")
    arguments = parser.parse_args()
    build = arguments.build.resolve()
    with run_app.Server(build) as server:
        few, many = (counts(build, server, arguments.app, each) for each in LAUNCHES)
    more = LAUNCHES[1] - LAUNCHES[0]
    records = many["records"] - few["records"]
    trips = many["round_trips"] - few["round_trips"]
    print(f"{more} more launches of 1,000 kernels: {records} records, {trips} round trips")
    # Either run may have asked for memory once more than the other.
    if abs(records - more) > 2 or abs(trips) > 2:
        sys.exit("a launch of a graph is to be one record without an answer")


if __name__ == "__main__":
    main()
