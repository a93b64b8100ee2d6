#!/usr/bin/env python3
# What slower networks do to the sample programs: a table of times beside those of a local guest.
# SPDX-License-Identifier: Apache-2.0
"""Usage: emulated_programs.py --build BUILD [--rounds N] [--markdown FILE] [PROGRAM…]

Runs each program (default: six of tests/apps) as a local guest, as a guest over loopback tcp, and
over the same with an added round trip of 5, 20, 100 and 1000 us at 1, 10 and 100 Gb/s. A time is
that of the whole process; shown is the median of the rounds, in which all settings take turns, as a
table and as bars.
"""
import argparse
import math
import pathlib
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "apps"))
import run_app  # noqa: E402

PROGRAMS = ["vecadd", "matmul", "reduce", "histogram", "bitonic", "streams"]
ROUND_TRIPS_US = [5, 20, 100, 1000]
GIGABITS = [100, 10, 1]


def settings_of(gate):
    """(name, environment) of each column; the first is the local guest."""
    yield "shm", None
    yield "tcp", gate.settings
    for gigabits in GIGABITS:
        for microseconds in ROUND_TRIPS_US:
            yield (f"{microseconds} us {gigabits} Gb/s",
                   {**gate.settings, "VGPU_NET_EMULATE": f"rtt={microseconds}us,gbps={gigabits}"})


def timed(build, server, command, settings):
    if settings is None:
        command = [str(build / "bin/vgpu"), "run", "--server", server.address, "--"] + command
        env = run_app.environment(build)
    else:
        env = run_app.environment(build, **{**settings, "libraries": list(settings["libraries"])})
    start = time.monotonic()
    code, _, errors = run_app.run(command, env)
    if code != 0:
        sys.exit(f"{' '.join(command)}: exit code {code}\n{errors.decode(errors='replace')}")
    return time.monotonic() - start


def measure(build, programs, rounds):
    """{program: {setting: median seconds}}"""
    times = {program: {} for program in programs}
    with run_app.Server(build) as server, run_app.PlainGate(build, server) as gate:
        for _ in range(rounds):
            for program in programs:
                command = [str(build / "tests/apps" / program)]
                for name, settings in settings_of(gate):
                    seconds = timed(build, server, command, settings)
                    times[program].setdefault(name, []).append(seconds)
    return {program: {name: statistics.median(values) for name, values in row.items()}
            for program, row in times.items()}


def table(medians):
    names = list(next(iter(medians.values())))
    lines = ["| program | shm, ms | " + " | ".join(names[1:]) + " |",
             "|---|" + "---|" * len(names)]
    for program, row in medians.items():
        cells = [f"{row['shm'] * 1000:.0f}"]
        cells += [f"{row[name] / row['shm']:.2f}" for name in names[1:]]
        lines.append(f"| {program} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def plot(medians, gigabits=10):
    """Bars of the slowdown at one bandwidth, a letter of bar for each doubling beyond 1."""
    lines = [f"slowdown against shm at {gigabits} Gb/s, one # for each quarter of a doubling"]
    for program, row in medians.items():
        for microseconds in ROUND_TRIPS_US:
            times = row[f"{microseconds} us {gigabits} Gb/s"] / row["shm"]
            bar = "#" * max(0, round(4 * math.log2(times)))
            lines.append(f"{program:>12} {microseconds:>5} us {times:7.2f} {bar}")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--markdown", type=pathlib.Path)
    parser.add_argument("programs", nargs="*", default=PROGRAMS)
    arguments = parser.parse_args()
    medians = measure(arguments.build.resolve(), arguments.programs, arguments.rounds)
    text = table(medians)
    print(text, plot(medians), sep="\n", end="")
    if arguments.markdown:
        arguments.markdown.write_text(text)


if __name__ == "__main__":
    main()
