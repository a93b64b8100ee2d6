#!/usr/bin/env python3
# What programs do again and again costs a guest no round trip, whatever family it is of; and a
# graph of 1,000 nodes is launched by one record of at most 128 bytes.
# SPDX-License-Identifier: Apache-2.0
"""Usage: family_trips_test.py --build BUILD APP"""
import argparse
import json
import pathlib
import sys
import tempfile

import run_app

ROUNDS = (20, 220)
GRAPH_BYTES_MAX = 128


def counts(build, server, app, family, rounds):
    with tempfile.TemporaryDirectory(prefix="vgpu-trips-") as folder:
        path = pathlib.Path(folder) / "stats.json"
        command = [str(build / "bin/vgpu"), "run", "--server", server.address, "--", app, family,
                   str(rounds)]
        code, out, errors = run_app.run(command, run_app.environment(build, VGPU_STATS=str(path)))
        if code != 0:
            server.show_log()
            sys.exit(f"{family}: exit code {code}: {(out + errors).decode(errors='replace')}")
        return json.loads(path.read_text().splitlines()[-1])


def trips(stats):
    """By op; memory that is asked for ahead comes when it comes."""
    return {op: n for op, n in stats["round_trips_by_op"].items() if op != "MemCredit"}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("app")
    arguments = parser.parse_args()
    build = arguments.build.resolve()
    code, out, _ = run_app.run_direct(build, [arguments.app])
    families = out.decode().split("the graph")[0].split()
    if code != 0 or len(families) < 12:
        sys.exit(f"directly: exit code {code}, families {families}")
    wrong = []
    with run_app.Server(build) as server:
        for family in families:
            few, many = (counts(build, server, arguments.app, family, n) for n in ROUNDS)
            more = {op: trips(many).get(op, 0) - trips(few).get(op, 0)
                    for op in trips(many) | trips(few)}
            more = {op: n for op, n in more.items() if n != 0}
            rounds = ROUNDS[1] - ROUNDS[0]
            records = (many["records"] - few["records"]) / rounds
            size = (many["ring_bytes"] - few["ring_bytes"]) / rounds
            print(f"{family}: {records:.2f} records, {size:.0f} bytes a round; round trips: {more}")
            if sum(more.values()) != 0:
                wrong.append(f"{family} asks the server: {more}")
            if family == "graphs" and (round(records) != 1 or size > GRAPH_BYTES_MAX):
                wrong.append("a launch of a graph is to be one record, "
                             f"and at most {GRAPH_BYTES_MAX} bytes")
    if wrong:
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    main()
