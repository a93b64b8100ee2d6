#!/usr/bin/env python3
# vgpu demo works, says so, and leaves no process and no file behind, also when interrupted.
# SPDX-License-Identifier: Apache-2.0
import os
import pathlib
import signal
import subprocess
import tempfile

from harness import BUILD, VGPU, environment, expect, until, vgpu


def processes_with(text):
    """Command lines of processes that mention `text`."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if text in line:
            found.append(line)
    return found


def whole(folder):
    result = vgpu("demo", "--rounds", "1", TMPDIR=folder)
    expect(result.returncode == 0, "the demo succeeds", result)
    for part in ("vecadd", "matmul", "guest/direct", "round trips", "same output"):
        expect(part in result.stdout, f"it shows {part}", result)
    expect(not os.listdir(folder), "its folder is gone", result)
    expect(not processes_with(folder), "its server is gone", result)


def wrong_program(folder):
    result = vgpu("demo", "--rounds", "1", "/bin/true", "/bin/false", TMPDIR=folder)
    expect(result.returncode == 1 and "FAILED: false" in result.stdout,
           "a program that fails makes the demo fail", result)


def interrupted(folder):
    # A shell's background job ignores SIGINT, and so would everything that it starts.
    process = subprocess.Popen([VGPU, "demo", "--rounds", "100"], env=environment(TMPDIR=folder),
                               stdout=subprocess.PIPE, text=True,
                               preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
    until(lambda: "round 1" in process.stdout.readline(), "the first round")
    process.send_signal(signal.SIGINT)
    rest = process.communicate(timeout=60)[0]
    expect(process.returncode == 130 and "interrupted" in rest, "Ctrl-C ends it with 130")
    expect(not processes_with(folder) and not os.listdir(folder), "and leaves nothing")


def main():
    with tempfile.TemporaryDirectory(prefix="vgpu-demo-test-") as folder:
        expect((BUILD / "tests/apps/vecadd").exists(), "the demo's programs are built")
        whole(folder)
        wrong_program(folder)
        interrupted(folder)


if __name__ == "__main__":
    main()
