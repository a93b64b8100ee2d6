#!/usr/bin/env python3
# What slower networks do to the sample programs: a table of times beside those of a local guest.
# SPDX-License-Identifier: Apache-2.0
"""Usage: emulated_programs.py --build BUILD [--rounds N] [--markdown FILE] [--svg FILE] [PROGRAM…]

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


def svg(medians):
    """Slowdown over the round trip, both logarithmic: a line for each program, a panel for each
    bandwidth."""
    width, height, edge, colours = 300, 260, 45, ["#1b6ca8", "#c8553d", "#3a7d44", "#8e5ea2",
                                                  "#b8860b", "#555555"]
    top = max(2, max(max(row[name] for name in row) / row["shm"] for row in medians.values()))
    parts = []

    def place(panel, microseconds, slowdown):
        x = math.log(microseconds / ROUND_TRIPS_US[0]) / math.log(
            ROUND_TRIPS_US[-1] / ROUND_TRIPS_US[0])
        y = math.log(max(slowdown, 1)) / math.log(top)
        return (f"{panel * (width + edge) + edge + x * (width - 20):.0f},"
                f"{height - edge - y * (height - 2 * edge):.0f}")

    def text(at, words, colour="black"):
        x, y = at.split(",")
        parts.append(f'<text x="{x}" y="{y}" fill="{colour}">{words}</text>')

    for panel, gigabits in enumerate(GIGABITS):
        left = panel * (width + edge) + edge
        text(f"{left},20", f"{gigabits} Gb/s, slowdown against shm")
        for slowdown in (1, top):
            at = place(panel, ROUND_TRIPS_US[0], slowdown)
            parts.append(f'<path d="M{at}h{width - 20}" stroke="#ccc"/>')
            text(f"{left - 35},{at.split(',')[1]}", f"{slowdown:.1f}")
        for microseconds in ROUND_TRIPS_US:
            x = place(panel, microseconds, 1).split(",")[0]
            text(f"{x},{height - edge + 16}", f"{microseconds} us")
        for number, (_, row) in enumerate(medians.items()):
            points = " ".join(place(panel, us, row[f"{us} us {gigabits} Gb/s"] / row["shm"])
                              for us in ROUND_TRIPS_US)
            colour = colours[number % len(colours)]
            parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}"/>')
    for number, program in enumerate(medians):
        text(f"{edge + 100 * number},{height - 6}", program, colours[number % len(colours)])
    full = len(GIGABITS) * (width + edge) + edge
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{full}" height="{height}" '
            f'font-family="sans-serif" font-size="11">\n<rect width="100%" height="100%" '
            'fill="white"/>\n' + "\n".join(parts) + "\n</svg>\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--markdown", type=pathlib.Path)
    parser.add_argument("--svg", type=pathlib.Path)
    parser.add_argument("programs", nargs="*", default=PROGRAMS)
    arguments = parser.parse_args()
    medians = measure(arguments.build.resolve(), arguments.programs, arguments.rounds)
    text = table(medians)
    print(text, plot(medians), sep="\n", end="")
    if arguments.markdown:
        arguments.markdown.write_text(text)
    if arguments.svg:
        arguments.svg.write_text(svg(medians))


if __name__ == "__main__":
    main()
