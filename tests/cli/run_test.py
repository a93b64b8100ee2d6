#!/usr/bin/env python3
# vgpu run becomes the program: exit codes, signals, arguments and environment pass through.
# SPDX-License-Identifier: Apache-2.0
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile

from harness import VGPU, environment, expect, json_of, until, vgpu


def harmless_library():
    """A real library that does nothing to the programs below."""
    for line in subprocess.run(["ldd", VGPU], capture_output=True, text=True).stdout.splitlines():
        if "libm.so" in line:
            return line.split("=>")[1].split()[0]
    raise AssertionError("no libm in vgpu")


LIBRARY = harmless_library()
GUEST = {"VGPU_GUEST_LIBRARY": LIBRARY, "VGPU_SOFT_DRIVER": LIBRARY}


def run(*arguments, **more):
    return vgpu("run", *arguments, **{**GUEST, **more})


def exit_codes():
    for code in (0, 1, 7, 255):
        result = run("--no-check", "--", "sh", "-c", f"exit {code}")
        expect(result.returncode == code, f"exit code {code} passes through", result)
    result = run("--no-check", "sh", "-c", "kill -KILL $$")
    expect(result.returncode == -signal.SIGKILL, "death by a signal passes through", result)


def signals(folder):
    ready, caught = folder / "ready", folder / "caught"
    script = f"trap 'echo got > {caught}; exit 9' TERM; echo $$ > {ready}.new; " \
             f"mv {ready}.new {ready}; while :; do sleep 0.05; done"
    process = subprocess.Popen([VGPU, "run", "--no-check", "--", "sh", "-c", script],
                               env=environment(**GUEST))
    until(ready.exists, "the program's start")
    expect(int(ready.read_text()) == process.pid, "the program has vgpu's own pid")
    process.send_signal(signal.SIGTERM)
    expect(process.wait(30) == 9 and caught.exists(), "SIGTERM reaches the program")


def missing(folder):
    result = run("--no-check", "--", "no-such-program")
    expect(result.returncode == 127 and "no-such-program" in result.stderr, "missing program: 127",
           result)
    plain = folder / "plain"
    plain.write_text("text")
    result = run("--no-check", str(plain))
    expect(result.returncode == 126, "a file that is no program: 126", result)
    alone = folder / "alone/bin/vgpu"  # no library is beside it
    alone.parent.mkdir(parents=True)
    shutil.copy(VGPU, alone)
    for option, what in (("--direct", "the software GPU"), ("--no-check", "the guest library")):
        result = vgpu("run", option, "ls", program=str(alone))
        expect(result.returncode == 125 and what in result.stderr, f"without {what}: 125", result)


def guest_environment(folder):
    show = "echo $LD_PRELOAD; echo $LD_LIBRARY_PATH; echo $VGPU_SERVER $VGPU_MEM $VGPU_NAME; " \
           "echo $VGPU_STATS"
    result = run("--no-check", "--server", "unix:/tmp/x.sock", "--mem", "1.5G", "--name", "alice",
                 "--stats=counts.json", "--", "sh", "-c", show, LD_PRELOAD="libdl.so.2")
    lines = result.stdout.splitlines()
    expect(lines[0] == f"{LIBRARY}:libdl.so.2", "the guest library is first in LD_PRELOAD", result)
    expect(lines[1] == os.path.dirname(LIBRARY), "its folder is in LD_LIBRARY_PATH", result)
    expect(lines[2] == f"unix:/tmp/x.sock {3 << 29} alice", "server, size and name", result)
    expect(lines[3] == os.path.join(os.getcwd(), "counts.json"), "the counts' file is absolute",
           result)
    result = run("--direct", "--", "printf", "%s|", "a b", "--mem", "")
    expect(result.stdout == "a b|--mem||", "arguments arrive as they are", result)


def no_server(folder):
    address = f"unix:{folder}/nobody.sock"
    result = run("--server", address, "--", "sh", "-c", "echo started")
    expect(result.returncode == 125 and "started" not in result.stdout, "no server: 125", result)
    expect(address in result.stderr and "vgpud --listen" in result.stderr,
           "the message names the address and what to do", result)
    result = vgpu("info", "--server", address)
    expect(result.returncode == 1 and address in result.stderr, "info without a server", result)
    result = vgpu("info", "--json", "--server", address)
    expect(json_of(result)["answers"] is False, "the same as JSON", result)
    result = vgpu("doctor", "--json", "--server", address)
    found = {finding["what"]: finding for finding in json_of(result)["findings"]}
    expect(result.returncode == 2 and found["server"]["verdict"] == "fail" and
           found["server"]["advice"], "doctor fails without a server and says what to do", result)


def main():
    with tempfile.TemporaryDirectory(prefix="vgpu-cli-") as name:
        folder = pathlib.Path(name)
        exit_codes()
        signals(folder)
        missing(folder)
        guest_environment(folder)
        no_server(folder)


if __name__ == "__main__":
    main()
