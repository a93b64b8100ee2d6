#!/usr/bin/env python3
# Sessions whose connection is cut, or silent: the same program ends as if nothing had been, or both
# sides end it.
# SPDX-License-Identifier: Apache-2.0
"""Usage: resume_test.py BUILD (cuts|slow_cuts|stopped|paused|restarted|past_grace|path)

The program counts (tests/apps/counter.cu): each kernel, copy and host function must have had its
effect once and in its turn. path: a network namespace with a link that goes down and sockets that
are killed; needs root, exit code 77 says why it was skipped.
"""
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cli"))
from harness import BUILD, environment, expect, json_of, until  # noqa: E402
from network_test import Machines, SOFT, free_port  # noqa: E402

COUNTER = BUILD / "tests/apps/counter"
UNAVAILABLE = "cudaErrorDevicesUnavailable"
FREED_SECONDS = 3
ERROR_SECONDS = 5


def parent_of(pid):
    stat = pathlib.Path(f"/proc/{pid}/stat").read_text()
    return int(stat.rsplit(")", 1)[1].split()[1])


class World(Machines):
    """A server on the network, a guest with a key that it admits."""

    def __init__(self, folder, *options, host="127.0.0.1"):
        super().__init__(folder)
        self.address = f"tcp://{host}:{free_port()}"
        self.options = list(options)
        self.log = open(f"{folder}/log", "w+")
        public = self.on("server", "key", "create", "--server", "--file",
                         str(self.folder / "server/vgpu/server.key")).stdout.strip()
        guest = self.on("guest", "key", "create").stdout.strip()
        self.on("guest", "key", "trust", self.address, public)
        self.on("server", "key", "authorize", guest, "team-a", "--file",
                str(self.folder / "server/vgpu/authorized_keys"))
        self.server = self.start()

    def start(self):
        server = subprocess.Popen(
            [str(BUILD / "bin/vgpud"), "--listen", self.local, "--listen", self.address, "--driver",
             "soft", "--server-key", str(self.folder / "server/vgpu/server.key"),
             "--authorized-keys", str(self.folder / "server/vgpu/authorized_keys"), *self.options],
            env=environment(VGPU_SOFT_DRIVER=str(SOFT), **self.config("server")),
            stdout=self.log, stderr=self.log, start_new_session=True)
        until(lambda: server.poll() is not None or json_of(self.info()).get("networks"), "the gate")
        return server

    def info(self):
        return self.on("server", "info", "--json", "--server", self.local)

    def guests(self):
        return json_of(self.info())["guests"]

    def counter(self, rounds, *more, prefix=(), **settings):
        """Starts it; it becomes the program, so its process is the program's."""
        return subprocess.Popen(
            [*prefix, str(BUILD / "bin/vgpu"), "run", "--no-check", "--server", self.address, "--",
             str(COUNTER), str(rounds), *map(str, more)],
            env=environment(**self.config("guest"), **settings), text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def text(self):
        return pathlib.Path(self.log.name).read_text()

    def cuts(self):
        return len(re.findall(r"connection \d+ is cut", self.text()))

    def processes(self, session):
        """Of the gate: its sessions, or itself."""
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
                if words[0].endswith(b"vgpu-gate") and (b"--session" in words) == session:
                    above = parent_of(entry.name)
                    if (parent_of(above) if session else above) == self.server.pid:
                        found.append(int(entry.name))
            except OSError:
                continue  # no process, or none any more
        return found

    def end(self):
        if self.server.poll() is None:
            self.server.send_signal(signal.SIGTERM)
            self.server.wait(60)
        sys.stderr.write("\n".join(line for line in self.text().splitlines()
                                   if "is cut" not in line)[-4000:] + "\n")
        self.log.close()


class Result:
    def __init__(self, process, seconds=100):
        try:
            self.stdout, self.stderr = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            self.stdout, self.stderr = process.communicate()
            self.stderr += "\nhung\n"
        self.returncode = process.returncode


def began(program):
    expect(program.stdout.readline() == "counting\n", "the program has begun")
    time.sleep(0.2)


def expect_counted(process, what, rounds):
    result = Result(process)
    wanted = f"{8 * rounds} steps of {8 * rounds}, {rounds} calls, faults: 0 0 0"
    expect(result.returncode == 0 and wanted in result.stdout and result.stderr == "", what, result)


def expect_unavailable(process, what, since, seconds):
    result = Result(process)
    took = time.monotonic() - since
    expect(result.returncode == 1 and UNAVAILABLE in result.stdout and took <= seconds,
           f"{what} ({took:.1f} s)", result)


def cuts(world):
    for seed in range(1, 7):
        before = world.cuts()
        expect_counted(world.counter(120, VGPU_NET_EMULATE=f"cut=20,seed={seed * 1000}"),
                       f"seed {seed}: none lost, none doubled", 120)
        print(f"   {world.cuts() - before} cuts")
    expect(world.cuts() >= 60, f"{world.cuts()} cuts")


def slow_cuts(world):
    for seed in range(1, 4):
        expect_counted(
            world.counter(60, VGPU_NET_EMULATE=f"rtt=2ms,jitter=1ms,gbps=1,cut=40,seed={seed}"),
            f"seed {seed}: with delay, jitter and bandwidth", 60)
    expect(world.cuts() >= 10, f"{world.cuts()} cuts")


def pause(pids, seconds):
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    time.sleep(seconds)
    for pid in pids:
        os.kill(pid, signal.SIGCONT)


def stopped(world):
    """A side that is stopped for less than the grace, while connections are cut, too."""
    emulate = {"VGPU_NET_EMULATE": "cut=60,seed=5"}
    for what in ("the guest", "the session's process", "the gate"):
        program = world.counter(100, 20, **emulate)
        began(program)
        pids = {"the guest": [program.pid], "the session's process": world.processes(True),
                "the gate": world.processes(False)}[what]
        expect(len(pids) == 1 and program.poll() is None, f"{what} is there")
        pause(pids, 3)
        expect_counted(program, f"{what} is stopped for 3 s", 100)


def paused(world):
    """A machine of both sides, or a group of processes that gets no processor, for longer than the
    grace: who has not listened has not missed anything."""
    for _ in range(3):
        program = world.counter(100, 20)
        began(program)
        pids = [program.pid, *world.processes(True), *world.processes(False)]
        expect(len(pids) == 3 and program.poll() is None, "guest, session and gate are there")
        pause(pids, 5)
        expect_counted(program, "both sides are stopped for 5 s, the grace is 3 s", 100)


def restarted(world):
    """vgpud is killed and comes back; the old gate looks after its guests and their cuts."""
    program = world.counter(150, 20, VGPU_NET_EMULATE="cut=60,seed=9")
    began(program)
    world.server.kill()
    world.server.wait()
    before = world.cuts()
    world.server = world.start()
    expect_counted(program, "vgpud killed and started again", 150)
    expect(world.cuts() > before, "connections were cut and made after that")


def past_grace(world):
    """The server's grace is 3 s, the guest of one test asks for 1.5 s."""
    program = world.counter(10000, 20)
    began(program)
    os.kill(program.pid, signal.SIGSTOP)
    since = time.monotonic()
    until(lambda: not world.guests(), "its end")
    took = time.monotonic() - since
    expect(2.5 <= took <= 3 + FREED_SECONDS,
           f"a silent guest is freed after the grace ({took:.1f} s)")
    os.kill(program.pid, signal.SIGCONT)
    expect_unavailable(program, "and finds its devices unavailable", time.monotonic(),
                       ERROR_SECONDS)
    program = world.counter(10000, 20, VGPU_NETWORK_GRACE="1.5")
    began(program)
    silent = world.processes(False) + world.processes(True)
    for pid in silent:
        os.kill(pid, signal.SIGSTOP)
    expect_unavailable(program, "a silent server is given up after the guest's grace",
                       time.monotonic(), 1.5 + ERROR_SECONDS)
    for pid in silent:
        os.kill(pid, signal.SIGCONT)
    since = time.monotonic()
    until(lambda: not world.guests(), "its end")
    expect(time.monotonic() - since <= FREED_SECONDS, "and frees it when it hears of that")


# --- a path of its own: namespaces and a virtual cable
OWN, THERE = "10.213.7.1", "10.213.7.2"


def ip(*arguments, check=True):
    return subprocess.run(["ip", *arguments], check=check, capture_output=True, text=True)


class Path:
    def __init__(self):
        self.name = f"vgpu{os.getpid()}"
        self.cable = f"vg{os.getpid()}"

    def __enter__(self):
        ip("netns", "add", self.name)
        ip("link", "add", self.cable, "type", "veth", "peer", "name", "eth0", "netns", self.name)
        ip("addr", "add", f"{OWN}/30", "dev", self.cable)
        ip("link", "set", self.cable, "up")
        ip("-n", self.name, "addr", "add", f"{THERE}/30", "dev", "eth0")
        self.set(True)
        ip("-n", self.name, "link", "set", "lo", "up")
        return self

    def __exit__(self, *_):
        ip("link", "del", self.cable, check=False)
        ip("netns", "del", self.name, check=False)

    def set(self, up):
        ip("-n", self.name, "link", "set", "eth0", "up" if up else "down")

    def prefix(self):
        return ["ip", "netns", "exec", self.name]

    def kill_sockets(self, *what):
        subprocess.run([*self.prefix(), "ss", "-K", "dst", OWN, *what], capture_output=True,
                       check=False)

    def netem(self, words):
        return subprocess.run(["tc", "qdisc", "replace", "dev", self.cable, "root", "netem",
                               *words.split()], capture_output=True, check=False).returncode == 0


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def path(_):
    if os.geteuid() != 0 or not shutil.which("ip") or not shutil.which("ss"):
        skip("needs root, ip and ss")
    if ip("netns", "add", f"vgpuprobe{os.getpid()}", check=False).returncode != 0:
        skip("no network namespaces here")
    ip("netns", "del", f"vgpuprobe{os.getpid()}")
    with tempfile.TemporaryDirectory(prefix="vgpu-path-") as folder, Path() as cable:
        world = World(folder, "--network-grace", "8", host=OWN)
        try:
            on_path(world, cable)
        finally:
            world.end()


def on_path(world, cable):
    def begin():
        program = world.counter(250, 20, prefix=cable.prefix())
        began(program)
        return program

    port = world.address.rsplit(":", 1)[1]
    program = begin()
    for _ in range(5):
        cable.kill_sockets("dport", "!=", f":{port}")
        time.sleep(0.3)
    expect_counted(program, "data connections reset: the session goes on", 250)
    expect(world.cuts() >= 4, f"{world.cuts()} connections were cut")
    program = begin()
    cable.kill_sockets()
    expect_counted(program, "all connections reset, and the path is there: it goes on", 250)
    program = begin()
    cable.set(False)
    time.sleep(5)
    cable.set(True)
    expect_counted(program, "no path for 5 s: it goes on", 250)
    if cable.netem("delay 5ms 2ms loss 3%"):
        expect_counted(begin(), "delay and loss", 250)
        cable.netem("limit 1000")
    else:
        print("skipped: this kernel has no netem")
    program = begin()
    program.kill()
    since = time.monotonic()
    until(lambda: not world.guests(), "its end")
    expect(time.monotonic() - since <= FREED_SECONDS, "a guest that is killed is freed")
    program.communicate()
    program = begin()
    cable.set(False)
    since = time.monotonic()
    until(lambda: not world.guests(), "its end")
    took = time.monotonic() - since
    expect(7 <= took <= 8 + FREED_SECONDS, f"no path past the grace: freed ({took:.1f} s)")
    expect_unavailable(program, "and the guest's devices are unavailable", since,
                       8 + ERROR_SECONDS)


OPTIONS = {"past_grace": ["--network-grace", "3"], "paused": ["--network-grace", "3"]}


def main():
    name = sys.argv[2]
    if not COUNTER.exists():
        skip("no nvcc, no counter")
    if name == "path":
        path(None)
        return
    with tempfile.TemporaryDirectory(prefix="vgpu-resume-") as folder:
        world = World(folder, *OPTIONS.get(name, []))
        try:
            globals()[name](world)
        finally:
            world.end()
        expect(world.server.returncode == 0, f"vgpud ended with {world.server.returncode}")


if __name__ == "__main__":
    main()
