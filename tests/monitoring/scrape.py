# A server with metrics, and its answers as a table.
# SPDX-License-Identifier: Apache-2.0
import contextlib
import pathlib
import re
import socket
import subprocess
import sys
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "cli"))
import harness  # noqa: E402
from harness import VGPU, environment, expect  # noqa: E402

SERIES = re.compile(r'^(\w+)(?:\{(.*)\})? (\S+)$')
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
BUSY_GUEST = str(HERE.parent / "programs/busy_guest.py")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextlib.contextmanager
def server_with_metrics():
    """(address for guests, "127.0.0.1:PORT")"""
    target = f"127.0.0.1:{free_port()}"
    with harness.server("soft", "--metrics", target, "--scheduler", "fair") as address:
        yield address, target


@contextlib.contextmanager
def guest(address, name, quota, mebibytes, *more):
    """A guest that has its memory and computes, or is idle."""
    process = subprocess.Popen(
        [VGPU, "run", "--server", address, "--name", name, "--mem", quota, "--", sys.executable,
         BUSY_GUEST, str(mebibytes), *more],
        env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        expect(process.stdout.readline() == "ready\n", f"the guest {name} computes")
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


def text_of(target, seconds=10):
    with urllib.request.urlopen(f"http://{target}/metrics", timeout=seconds) as answer:
        return answer.read().decode()


def scrape(target):
    """{name: [(labels, value)…]}; a series that is there twice fails the test."""
    found, seen = {}, set()
    for line in text_of(target).splitlines():
        match = None if line.startswith("#") else SERIES.match(line)
        if match:
            key = (match[1], match[2])
            expect(key not in seen, f"{line} is there twice") if key in seen else seen.add(key)
            labels = dict(LABEL.findall(match[2] or ""))
            found.setdefault(match[1], []).append((labels, float(match[3])))
    return found


def value(series, name, **labels):
    """Of the one series with these labels among others; None: there is none."""
    values = [v for have, v in series.get(name, [])
              if all(have.get(k) == w for k, w in labels.items())]
    expect(len(values) <= 1, f"{name} with {labels} names one series") if len(values) > 1 else None
    return values[0] if values else None
