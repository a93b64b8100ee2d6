#!/usr/bin/env python3
# vgpu run --server A,B: an unmodified program sees the devices of both, in order; what it prints is
# what it prints on one server with two devices. Then one server's worker is killed.
# SPDX-License-Identifier: Apache-2.0
import contextlib
import os
import pathlib
import signal
import socket
import subprocess
import tempfile

from run_app import children
from harness import BUILD, VGPU, environment, expect, json_of, server, until, vgpu

SOFT = str(BUILD / "lib/softgpu/libcuda.so.1")
PROGRAM = str(BUILD / "tests/servers/servers_app")
LOSS = str(BUILD / "tests/servers/loss_app")


def same_on_both(first, second):
    with server("soft", VGPU_SOFT_DRIVER=SOFT, VGPU_SOFTGPU_DEVICES="2") as one:
        alone = vgpu("run", "--server", one, "--", PROGRAM)
    expect(alone.returncode == 0 and "done" in alone.stdout, "one server with two devices", alone)
    for turn in range(3):
        both = vgpu("run", "--server", f"{first},{second}", "--", PROGRAM)
        expect(both.returncode == 0 and both.stdout == alone.stdout,
               f"two servers print the same (run {turn})", both)
    by_environment = vgpu("run", "--", PROGRAM, VGPU_SERVER=f"{first},{second}")
    expect(by_environment.stdout == alone.stdout, "the same by VGPU_SERVER", by_environment)
    visible = vgpu("run", "--server", f"{first},{second}", "--", PROGRAM,
                   CUDA_VISIBLE_DEVICES="1")
    expect("1 devices" in visible.stdout, "CUDA_VISIBLE_DEVICES is of all", visible)
    swapped = vgpu("run", "--server", f"{first},{second}", "--", PROGRAM,
                   CUDA_VISIBLE_DEVICES="1,0")
    expect(swapped.returncode == 0 and swapped.stdout == alone.stdout, "in another order", swapped)


def refused(first, folder):
    nobody = f"unix:{folder}/nobody.sock"
    result = vgpu("run", "--server", f"{first},{nobody}", "--", "sh", "-c", "echo started")
    expect(result.returncode == 125 and nobody in result.stderr and
           "started" not in result.stdout,
           "a server of the list that is not there is named", result)
    result = vgpu("run", "--no-check", "--server", f"{first},{nobody}", "--", PROGRAM)
    expect(result.returncode == 1 and nobody in result.stderr, "so it is without the check", result)
    result = vgpu("run", "--server", f"{first},{first}", "--devices", "0", "--", "true")
    expect(result.returncode == 125 and "CUDA_VISIBLE_DEVICES" in result.stderr,
           "--devices is of one server", result)


def one_lost(first, second):
    process = subprocess.Popen([VGPU, "run", "--server", f"{first},{second}", "--", LOSS],
                               text=True, env=environment(), stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE)
    for line in process.stdout:
        if line == "ready\n":
            break
    told = json_of(vgpu("info", "--json", "--server", second))
    expect(len(told["guests"]) == 1, "the second server has the guest")
    for worker in children(told["pid"]):
        os.kill(worker, signal.SIGKILL)
    until(lambda: not json_of(vgpu("info", "--json", "--server", second))["guests"], "its end")
    out, _ = process.communicate("go\n", timeout=60)
    print(out)
    expect(process.returncode == 0, "the lost server's calls fail, the other's go on")


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


@contextlib.contextmanager
def on_a_network(folder):
    """A server behind tcp on loopback that knows this guest's key; gives its address."""
    config = {"XDG_CONFIG_HOME": f"{folder}/config"}
    address = f"tcp://127.0.0.1:{free_port()}"
    key, keys = f"{folder}/server.key", f"{folder}/authorized_keys"
    server_key = vgpu("key", "create", "--server", "--file", key, **config).stdout.strip()
    guest_key = vgpu("key", "create", **config).stdout.strip()
    vgpu("key", "trust", address, server_key, **config)
    added = vgpu("key", "authorize", guest_key, "default", "--file", keys, **config)
    expect(added.returncode == 0, "the guest's key is admitted", added)
    with server("soft", "--listen", address, "--server-key", key, "--authorized-keys", keys,
                VGPU_SOFT_DRIVER=SOFT, **config):
        yield address, config


def over_tcp(first, folder, expected):
    with on_a_network(folder) as (address, config):
        result = vgpu("run", "--server", f"{first},{address}", "--", PROGRAM, **config)
    expect(result.returncode == 0 and result.stdout == expected, "one of the two over tcp", result)


def main():
    with tempfile.TemporaryDirectory(prefix="vgpu-servers-") as name, \
            server("soft", VGPU_SOFT_DRIVER=SOFT) as first, \
            server("soft", VGPU_SOFT_DRIVER=SOFT) as second:
        same_on_both(first, second)
        refused(first, pathlib.Path(name))
        one_lost(first, second)
        both = vgpu("run", "--server", f"{first},{second}", "--", PROGRAM)
        over_tcp(first, name, both.stdout)


if __name__ == "__main__":
    main()
