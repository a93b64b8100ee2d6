#!/usr/bin/env python3
# A worker that is killed while its guest runs a host function leaves nobody waiting.
# SPDX-License-Identifier: Apache-2.0
"""Usage: lost_worker_test.py --build BUILD CALLBACKS"""
import argparse
import os
import pathlib
import signal
import subprocess
import sys

import run_app

END_SECONDS_MAX = 20


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("program")
    arguments = parser.parse_args()
    build = arguments.build.resolve()
    with run_app.Server(build) as server:
        command = [str(build / "bin/vgpu"), "run", "--server", server.address, "--",
                   arguments.program, "hold"]
        with subprocess.Popen(command, env=run_app.environment(build), stdout=subprocess.PIPE,
                              stdin=subprocess.DEVNULL, start_new_session=True) as guest:
            if guest.stdout.readline() != b"held\n":
                sys.exit("the guest did not come so far")
            for pid in run_app.children(server.process.pid):
                os.kill(pid, signal.SIGKILL)
            try:
                out, _ = guest.communicate(timeout=END_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                os.killpg(guest.pid, signal.SIGKILL)
                sys.exit("the guest waits for a worker that is gone")
    if guest.returncode != 0 or not out.startswith(b"cudaError"):
        sys.exit(f"exit code {guest.returncode}, {out!r}")
    print(out.decode().strip())


if __name__ == "__main__":
    main()
