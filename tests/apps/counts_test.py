#!/usr/bin/env python3
# What a program does again and again costs a guest so many records each time, and no round trip.
# SPDX-License-Identifier: Apache-2.0
"""Usage: counts_test.py --build BUILD [--records N] APP; APP's argument is how often it does it"""
import argparse
import json
import pathlib
import sys
import tempfile

import run_app

ROUNDS = (1, 101)


def counts(build, server, app, rounds):
    with tempfile.TemporaryDirectory(prefix="vgpu-counts-") as folder:
        path = pathlib.Path(folder) / "stats.json"
        command = [str(build / "bin/vgpu"), "run", "--server", server.address, "--", app,
                   str(rounds)]
        code, out, errors = run_app.run(command, run_app.environment(build, VGPU_STATS=str(path)))
        if code != 0:
            server.show_log()
            sys.exit(f"exit code {code}: {(out + errors).decode(errors='replace')}")
        return json.loads(path.read_text().splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--records", type=int, default=1, help="of one round")
    parser.add_argument("app")
    arguments = parser.parse_args()
    build = arguments.build.resolve()
    with run_app.Server(build) as server:
        few, many = (counts(build, server, arguments.app, each) for each in ROUNDS)
    more = ROUNDS[1] - ROUNDS[0]
    records = many["records"] - few["records"]
    trips = many["round_trips"] - few["round_trips"]
    print(f"{more} more rounds: {records} records, {trips} round trips")
    # Either run may have asked for memory once more than the other.
    if abs(records - more * arguments.records) > 2 or abs(trips) > 2:
        sys.exit(f"a round is to be {arguments.records} records without an answer")


if __name__ == "__main__":
    main()
