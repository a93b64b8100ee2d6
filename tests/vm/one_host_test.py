#!/usr/bin/env python3
# vgpu-vm and vgpu-agent on one host: everything that a virtual machine's guests meet, but for the
# machine. SPDX-License-Identifier: Apache-2.0
"""Usage: one_host_test.py BUILD"""
import contextlib
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cli"))
from harness import (BUILD, HANG_SECONDS, VGPU, environment, expect, json_of, server,
                     until, vgpu)

FREED_SECONDS_MAX = 10  # what is promised to be "within seconds", on a busy machine
PIECES = 3
HOLDER = [str(BUILD / "tests/vm/vgpu_vm_holder"), "600"]


class Machine:
    """A machine of one's own: vgpu-vm, and an agent that maps the same memory."""

    def __init__(self, host, folder, name):
        self.host, self.folder, self.name = host, pathlib.Path(folder), name
        self.address = f"unix:{folder}/{name}.sock"
        self.memory = f"{folder}/{name}.memory"
        self.vm = self.agent = None
        self.log = open(f"{folder}/{name}.log", "w+")

    def start_vm(self):
        self.vm = self.start("vgpu-vm", "--name", self.name, "--server", self.host,
                             "--memory", self.memory, "--size", "64M", "--programs", str(PIECES))
        until(lambda: pathlib.Path(self.memory).exists(), "the region")

    def start_agent(self):
        self.agent = self.start("vgpu-agent", "--region", f"ivshmem:{self.memory}",
                                "--listen", self.address)
        until(lambda: self.info().returncode == 0, "the agent")

    def start(self, program, *arguments):
        return subprocess.Popen([str(BUILD / "bin" / program), *arguments], env=environment(),
                                stdout=self.log, stderr=self.log, start_new_session=True)

    def info(self):
        return vgpu("info", "--json", "--server", self.address)

    def run(self, *command, **more):
        return vgpu("run", "--server", self.address, "--", *command, **more)

    @contextlib.contextmanager
    def holder(self):
        process = subprocess.Popen(
            [VGPU, "run", "--server", self.address, "--", *HOLDER], env=environment(), text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        try:
            yield process, process.stdout.readline().strip()
        finally:
            process.kill()
            process.communicate(timeout=HANG_SECONDS)

    def stop(self):
        for process in (self.agent, self.vm):
            if process is not None and process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.terminate()
                process.wait(HANG_SECONDS)
        self.log.seek(0)
        sys.stderr.write(self.log.read())
        self.log.close()


def guests_of(address):
    return json_of(vgpu("info", "--json", "--server", address))["guests"]


def within_seconds(condition, what):
    start = time.monotonic()
    until(condition, what)
    took = time.monotonic() - start
    expect(took < FREED_SECONDS_MAX, f"{what}: {took:.1f} s")


def test_programs(machine):
    for name in ("vecadd", "matmul", "streams", "callbacks", "big_copy", "oom", "fault"):
        app = str(BUILD / "tests/apps" / name)
        if not pathlib.Path(app).exists():
            continue
        direct = vgpu("run", "--direct", "--", app)
        guest = machine.run(app)
        expect((guest.returncode, guest.stdout) == (direct.returncode, direct.stdout),
               f"{name} prints in a machine what it prints directly", guest)


def test_what_is_told(machine):
    with machine.holder() as (_, line):
        expect(line == "holds 0", "a guest holds memory")
        (guest,) = guests_of(machine.host)
        expect(guest["name"] == machine.name, "the host shows whose machine's the guest is")
        (own,) = guests_of(machine.address)
        expect(own["session"] == guest["session"], "the machine sees its own guest")
        with other_guest(machine.host):
            until(lambda: len(guests_of(machine.host)) == 2, "both guests")
            expect(len(guests_of(machine.address)) == 1, "and no other's")
    stopped = vgpu("stop", "--server", machine.address)
    expect(stopped.returncode != 0 and guests_of(machine.host) is not None,
           "a machine cannot stop the host's server", stopped)


@contextlib.contextmanager
def other_guest(address):
    process = subprocess.Popen([VGPU, "run", "--server", address, "--", *HOLDER],
                               env=environment(), text=True, stdout=subprocess.PIPE)
    try:
        yield process.stdout.readline()
    finally:
        process.kill()
        process.communicate(timeout=HANG_SECONDS)


def test_pieces(machine):
    with contextlib.ExitStack() as stack:
        for _ in range(PIECES):
            _, line = stack.enter_context(machine.holder())
            expect(line == "holds 0", "a guest holds memory")
        with machine.holder() as (process, line):
            expect(line.startswith("refused"), "one more than there are pieces is refused")
            expect("pieces" in process.communicate(timeout=HANG_SECONDS)[1], "and told why")
    until(lambda: not guests_of(machine.host), "their ends")
    with machine.holder() as (_, line):
        expect(line == "holds 0", "pieces are used again")


def test_ends(machine):
    with machine.holder() as (process, _):
        process.kill()
        within_seconds(lambda: not guests_of(machine.host), "a killed guest's memory is free")
    with machine.holder() as (process, _):
        machine.agent.kill()
        expect(process.stdout.readline().startswith("lost"), "without the agent calls fail")
        within_seconds(lambda: not guests_of(machine.host), "and the memory is free")
    machine.start_agent()
    with machine.holder() as (process, line):
        expect(line == "holds 0", "a new agent serves")
        machine.agent.send_signal(signal.SIGSTOP)
        within_seconds(lambda: not guests_of(machine.host), "of a silent machine memory is freed")
        machine.agent.send_signal(signal.SIGCONT)  # as a machine that was paused goes on
        expect(process.stdout.readline().startswith("lost"), "its guest's calls fail then")
    until(lambda: machine.info().returncode == 0, "the agent again")
    with machine.holder() as (process, line):
        expect(line == "holds 0", "a machine that goes on is served again")
        start = time.monotonic()
        machine.vm.kill()
        expect(process.stdout.readline().startswith("lost"), "without vgpu-vm calls fail")
        expect(time.monotonic() - start < FREED_SECONDS_MAX, "within seconds")
        within_seconds(lambda: not guests_of(machine.host), "and the memory is free")
    expect(machine.info().returncode != 0, "and programs hear that the host does not answer")


def test_files(host, folder):
    for option, name in (("--qemu", "a"), ("--memory", "b")):
        file = pathlib.Path(folder) / name
        file.write_text("precious")
        done = subprocess.run([str(BUILD / "bin/vgpu-vm"), "--server", host, option, str(file),
                               "--size", "64M"], env=environment(), capture_output=True, text=True,
                              timeout=HANG_SECONDS, check=False)
        expect(done.returncode != 0, f"{option} at a file of somebody's is refused")
        expect(file.read_text() == "precious", "and the file stays")


def main():
    with server("soft", VGPU_SOFTGPU_CACHE=str(BUILD / "softgpu-cache")) as host, \
            tempfile.TemporaryDirectory(prefix="vgpu-vm-") as folder:
        machine = Machine(host, folder, "vm1")
        try:
            test_files(host, folder)
            machine.start_vm()
            machine.start_agent()
            test_programs(machine)
            test_what_is_told(machine)
            test_pieces(machine)
            test_ends(machine)
        finally:
            machine.stop()


if __name__ == "__main__":
    main()
