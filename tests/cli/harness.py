#!/usr/bin/env python3
# What the tests of the command line share: running vgpu, waiting for a condition, a server.
# SPDX-License-Identifier: Apache-2.0
import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

HANG_SECONDS = 60
BUILD = pathlib.Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else pathlib.Path("build/dev")
VGPU = str(BUILD / "bin/vgpu")


def environment(**more):
    """This environment without anything of vGPU, and `more`."""
    env = {name: value for name, value in os.environ.items()
           if not name.startswith("VGPU_") and name not in ("LD_PRELOAD", "LD_LIBRARY_PATH")}
    env.update(more)
    return env


def vgpu(*arguments, program=VGPU, seconds=HANG_SECONDS, **more):
    """Runs vgpu to its end: returncode (-N = signal N), stdout, stderr."""
    return subprocess.run([program, *arguments], env=environment(**more), text=True,
                          stdin=subprocess.DEVNULL, capture_output=True, timeout=seconds)


def until(condition, what):
    """Waits for a condition; fails the test when it does not come."""
    limit = time.monotonic() + HANG_SECONDS
    while not condition():
        if time.monotonic() > limit:
            raise AssertionError(f"waited in vain for {what}")
        time.sleep(0.01)


@contextlib.contextmanager
def server(driver, *arguments, **more):
    """A vgpud of one's own, with `more` in its environment; gives its address."""
    with tempfile.TemporaryDirectory(prefix="vgpu-cli-") as folder:
        address = f"unix:{folder}/vgpud.sock"
        with open(f"{folder}/log", "w+") as log:
            process = subprocess.Popen(
                [str(BUILD / "bin/vgpud"), "--listen", address, "--driver", str(driver),
                 *arguments],
                env=environment(**more), stdout=log, stderr=log, start_new_session=True)
            try:
                until(lambda: process.poll() is not None or knows_its_device(address), "the server")
                yield address
            finally:
                if process.poll() is None:
                    process.send_signal(signal.SIGTERM)
                    process.wait(HANG_SECONDS)
                log.seek(0)
                sys.stderr.write(log.read())
        expect(process.returncode == 0, f"vgpud ended with {process.returncode}")


def knows_its_device(address):
    """Whether the server answers and its first worker has told it what the driver has."""
    result = vgpu("info", "--json", "--server", address)
    return result.returncode == 0 and bool(json_of(result)["devices"])


def expect(condition, what, result=None):
    """A check with a message; prints what the program said when it fails."""
    if condition:
        print(f"ok: {what}")
        return
    if result is not None:
        print(f"exit code {result.returncode}\n{result.stdout}{result.stderr}")
    sys.exit(f"FAILED: {what}")


def json_of(result):
    try:
        return json.loads(result.stdout)
    except json.JSONDecodeError:
        expect(False, "JSON on stdout", result)
