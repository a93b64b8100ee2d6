#!/usr/bin/env python3
# ps, limit, kill, drain and top against a real server with guests on the software GPU.
# SPDX-License-Identifier: Apache-2.0
import contextlib
import os
import pathlib
import pty
import select
import subprocess
import sys
import tempfile
import termios
import time

from harness import BUILD, HANG_SECONDS, VGPU, environment, expect, json_of, server, until, vgpu

MIB = 1 << 20
LIBRARY = BUILD / "lib/guest/libcuda.so.1"
CONFIG = """
[profile.small]
memory = "64M"
weight = 50
cap = 80
"""


class Guest:
    """A guest process and what it says."""

    def __init__(self, address, name, **more):
        script = pathlib.Path(__file__).with_name("guest.py")
        self.process = subprocess.Popen(
            [sys.executable, str(script), str(LIBRARY)], text=True, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env=environment(VGPU_SERVER=address, VGPU_NAME=name, **more))
        self.started = int(self.process.stdout.readline())

    def say(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return [int(word) for word in self.process.stdout.readline().split()]

    def end(self):
        self.process.stdin.close()
        self.process.wait(HANG_SECONDS)
        return self.process.stderr.read()


def guests(address):
    return json_of(vgpu("ps", "--json", "--server", address))["guests"]


def check_ps(address):
    text = vgpu("ps", "--server", address)
    expect(text.returncode == 0 and "alice" in text.stdout and "small" in text.stdout, "ps", text)
    alice = guests(address)[0]
    expect(alice["name"] == "alice" and alice["profile"] == "small" and
           alice["tenant"] == "everybody" and alice["weight"] == 50 and
           alice["cap_percent"] == 80 and alice["priority"] == "normal" and
           alice["granted_bytes"] == [64 * MIB] and alice["uid"] == os.getuid(), "ps as JSON")
    expect(vgpu("ps", "--server", "unix:/nobody").returncode == 1, "ps without a server")


def check_limit(address, alice):
    expect(alice.say("info") == [0, 64 * MIB, 64 * MIB, 64 * MIB], "the quota is what a guest sees")
    expect(alice.say(f"alloc {40 * MIB}") == [0], "memory within the quota")
    result = vgpu("limit", "alice", "--mem", "96M", "--share", "200", "--cap", "12.5",
                  "--priority", "spot", "--server", address)
    expect(result.returncode == 0 and "weight 200" in result.stdout and
           "12.5 %" in result.stdout, "limit", result)
    until(lambda: alice.say("info")[2] == 96 * MIB, "the new quota")
    expect(alice.say("info") == [0, 56 * MIB, 96 * MIB, 96 * MIB], "the new quota everywhere")
    expect(alice.say(f"alloc {50 * MIB}") == [0], "memory within the new quota")
    expect(alice.say(f"alloc {8 * MIB}") == [2], "out of memory beyond it")
    expect(alice.say(f"alloc {4 * MIB}") == [0], "which is not sticky")
    pid = str(alice.process.pid)
    result = vgpu("limit", pid, "--mem", "32M", "--json", "--server", address)
    expect(json_of(result)["memory_bytes"] == 32 * MIB and
           json_of(result)["held_bytes"] >= 94 * MIB, "less than it uses", result)
    until(lambda: alice.say("info")[2] == 32 * MIB, "the lowered quota")
    expect(alice.say("info")[1] == 0, "nothing is free then")
    expect(alice.say("alloc 512") == [2], "and nothing is given")
    for _ in range(3):
        expect(alice.say("free") == [0], "it frees")
    until(lambda: guests(address)[0]["used_bytes"][0] <= 32 * MIB, "the memory's return")
    expect(alice.say(f"alloc {30 * MIB}") == [0], "it may use what it has now")
    expect(alice.say(f"alloc {4 * MIB}") == [2], "and no more")
    alice_now = guests(address)[0]
    expect(alice_now["weight"] == 200 and alice_now["priority"] == "spot", "shares stay")
    until(lambda: guests(address)[0]["refused_allocations"] == 3, "three refusals in the figures")


def check_mistakes(address):
    result = vgpu("limit", "alice", "--server", address)
    expect(result.returncode == 1 and "nothing to change" in result.stderr, "no change", result)
    result = vgpu("limit", "bob", "--share", "5", "--server", address)
    expect(result.returncode == 1 and "no guest 'bob'" in result.stderr, "no such guest", result)
    for wrong in (["--share", "0"], ["--cap", "101"], ["--mem", "much"], ["--priority", "high"]):
        expect(vgpu("limit", "alice", *wrong, "--server", address).returncode == 2,
               f"limit {' '.join(wrong)}")
    result = vgpu("limit", "alice", "--mem", "900T", "--server", address)
    expect(result.returncode == 1 and "free" in result.stderr, "more than there is", result)
    expect(vgpu("kill", "bob", "--server", address).returncode == 1, "kill nobody")


def check_kill(address, alice):
    twin = Guest(address, "alice", VGPU_PROFILE="small")
    result = vgpu("kill", "alice", "--server", address)
    expect(result.returncode == 1 and "2 guests" in result.stderr, "a name that two have", result)
    result = vgpu("kill", str(twin.process.pid), "--server", address)
    expect(result.returncode == 0, "kill", result)
    until(lambda: len(guests(address)) == 1, "its end")
    expect(twin.say("alloc 512")[0] != 0, "its calls fail")
    twin.end()
    expect(alice.say("info")[0] == 0, "the others go on")


def check_drain(address, alice):
    result = vgpu("drain", "--wait", "--timeout", "1", "--server", address)
    expect(result.returncode == 1 and "1 run" in result.stdout, "drain waits in vain", result)
    late = Guest(address, "late")
    expect(late.started == 100 and "draining" in late.end(), "no new guests")
    expect("draining" in vgpu("ps", "--server", address).stdout, "ps says so")
    waiting = subprocess.Popen([VGPU, "drain", "--wait", "--json", "--server", address], text=True,
                               stdout=subprocess.PIPE, env=environment())
    alice.end()
    out, _ = waiting.communicate(timeout=HANG_SECONDS)
    expect(waiting.returncode == 0 and '"guests": 0' in out, "drain waits for the last guest")
    expect(vgpu("drain", "--undo", "--server", address).returncode == 0, "undo")
    with_guest = Guest(address, "again")
    expect(with_guest.started == 0, "guests again")
    with_guest.end()


def check_top_lines(address):
    result = vgpu("top", "--count", "2", "--interval", "0.1", "--server", address)
    expect(result.returncode == 0 and result.stdout.count("alice") == 2 and
           "\x1b" not in result.stdout, "top as lines", result)
    result = vgpu("top", "--json", "--count", "1", "--server", address)
    expect(json_of(result)["guests"][0]["name"] == "alice", "top as JSON", result)
    expect(vgpu("top", "--count", "1", "--server", "unix:/nobody").returncode == 1,
           "top without a server")
    expect(vgpu("top", "--interval", "0", "--server", address).returncode == 2, "a bad interval")


class Screen:
    """vgpu top on a terminal of its own."""

    def __init__(self, address):
        self.master, slave = pty.openpty()
        termios.tcsetwinsize(slave, (24, 160))
        self.before = termios.tcgetattr(slave)
        self.process = subprocess.Popen(
            [VGPU, "top", "--interval", "0.1", "--server", address], stdin=slave, stdout=slave,
            stderr=slave, env=environment(TERM="xterm", LC_ALL="C.UTF-8"), start_new_session=True)
        self.slave = slave
        self.seen = ""

    def wait_for(self, text):
        limit = time.monotonic() + HANG_SECONDS
        while text not in self.seen:
            if time.monotonic() > limit:
                expect(False, f"the picture never had {text!r}: {self.seen[-2000:]!r}")
            if select.select([self.master], [], [], 0.1)[0]:
                self.seen += os.read(self.master, 65536).decode(errors="replace")
        print(f"ok: the picture has {text!r}")

    def press(self, keys):
        self.seen = ""
        os.write(self.master, keys.encode())

    def end(self, keys):
        self.press(keys)
        self.wait_for("\x1b[?1049l")
        expect(self.process.wait(HANG_SECONDS) == 0, f"{keys!r} ends it")
        expect(termios.tcgetattr(self.slave) == self.before, "the terminal is as it was")
        os.close(self.master)
        os.close(self.slave)


def check_top_screen(address):
    screen = Screen(address)
    screen.wait_for("alice")
    screen.wait_for("by use")
    screen.press("s")
    screen.wait_for("by memory")
    screen.press("r")
    screen.wait_for("least first")
    screen.press("\x1b[B")
    screen.press("w")
    screen.wait_for("share (1 to 10000)")
    screen.press("77\r")
    screen.wait_for("done")
    expect(guests(address)[0]["weight"] == 77, "top changes a share")
    screen.press("mnonsense\r")
    screen.wait_for("makes no sense")
    screen.press("x")
    screen.wait_for("end its session?")
    screen.press("n\r")
    screen.wait_for("it goes on")
    screen.press("c\x1b")
    screen.wait_for("q quit")
    screen.end("q")
    screen = Screen(address)
    screen.wait_for("alice")
    screen.end("\x03")


def main():
    with tempfile.TemporaryDirectory(prefix="vgpu-steer-") as folder:
        config = pathlib.Path(folder) / "vgpud.toml"
        config.write_text(CONFIG)
        with server("soft", "--config", str(config), VGPU_SOFTGPU_MEMORY="1G") as address:
            with contextlib.ExitStack() as stack:
                alice = Guest(address, "alice", VGPU_PROFILE="small")
                stack.callback(alice.process.kill)
                expect(alice.started == 0, "a guest")
                check_ps(address)
                check_top_lines(address)
                check_top_screen(address)
                check_limit(address, alice)
                check_mistakes(address)
                check_kill(address, alice)
                check_drain(address, alice)


if __name__ == "__main__":
    main()
