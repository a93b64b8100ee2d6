#!/usr/bin/env python3
# Virtual machines whose programs use a server over TCP: one, and two that share a device by weight.
# SPDX-License-Identifier: Apache-2.0
"""Usage: network_test.py BUILD one|weights

The machines reach this host through QEMU's user networking: a real NIC of theirs, no memory in
common with the host.
"""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "cli"), str(HERE.parent / "net")]
import guest
from harness import BUILD, expect, json_of, until, vgpu
from machine_test import printed_directly
from resume_test import COUNTER, World

SKIPPED = 77
ROUNDS = 20
RUN = r"""
vgpu run -- /apps/vecadd > /tmp/out; say exit $?; say printed "$(tr '\n' ' ' < /tmp/out)"
vgpu run -- /apps/counter {rounds} > /tmp/out; say exit $?; say printed "$(grep steps /tmp/out)"
"""
APPS = [(BUILD / "tests/apps/vecadd", "/apps/vecadd"), (COUNTER, "/apps/counter")]
# Of the machine's own clock, which begins with it: programs work from when they are there to then.
END_SECONDS, WINDOW_SECONDS = 40, 8
BUCKETS_PER_SECOND = 20
KERNEL_MS = 5
SHARE = "vgpu run -- /apps/share bulk {loops} 0 {seconds} > /tmp/out; say ends $(cat /tmp/out)\n"
WEIGHTS = {"heavy": 400, "light": 100}
CONFIGURATION = "".join(
    f'[profile.{name}]\nmemory = "256M"\nweight = {weight}\n'
    f'[tenant.{name}]\nprofiles = ["{name}"]\n'
    for name, weight in WEIGHTS.items())
RATIO_MIN = 1.5  # of 4: what is asserted of weights beside other work, as docs/sharing.md says


class Machine:
    """QEMU with a key that the server admits as this tenant's."""

    def __init__(self, world, folder, tenant, script, apps, package):
        self.tenant = tenant
        address = f"tcp://{guest.HOST}:{world.address.rsplit(':', 1)[1]}"
        own = f"machine-{tenant}"
        public = world.on(own, "key", "create").stdout.strip()
        server = world.on("server", "key", "show", "--file",
                          str(world.folder / "server/vgpu/server.key")).stdout.strip()
        trusted = world.on(own, "key", "trust", address, server)
        expect(trusted.returncode == 0, f"{tenant}: the machine knows the server's key", trusted)
        world.on("server", "key", "authorize", public, tenant, "--file",
                 str(world.folder / "server/vgpu/authorized_keys"))
        files = [(world.folder / own / "vgpu" / name, f"/etc/vgpu/{name}")
                 for name in ("guest.key", "known_servers")]
        kernel = guest.kernel(BUILD / "vm-kernel")
        script = f"{guest.NETWORK_UP}export VGPU_SERVER={address}\n{script}"
        guest.make_image(f"{folder}/{tenant}.img", package, script, apps,
                         guest.modules_of(kernel, guest.NETWORK_MODULES), files)
        self.qemu = subprocess.Popen(
            guest.qemu_command(kernel, f"{folder}/{tenant}.img", guest.network_devices()),
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            errors="replace")
        self.output = ""
        self.said_at = 0  # when the machine has last said something to this test
        self.listener = threading.Thread(target=self.listen, daemon=True)
        self.listener.start()

    def listen(self):
        for line in self.qemu.stdout:
            self.output += line
            if guest.MARK in line:
                self.said_at = time.monotonic()

    def wait(self):
        try:
            self.qemu.wait(guest.BOOT_SECONDS_MAX)
        finally:
            self.stop()
        return guest.said(self.output)

    def stop(self):
        if self.qemu.poll() is None:
            self.qemu.kill()
            self.qemu.wait()
        self.listener.join()


def one(world, folder, package):
    machine = Machine(world, folder, "team-vm", RUN.format(rounds=ROUNDS), APPS, package)
    lines = machine.wait()
    steps = 8 * ROUNDS
    wanted = ["exit 0", f"printed {printed_directly()}",
              "exit 0", f"printed {steps} steps of {steps}, {ROUNDS} calls, faults: 0 0 0"]
    if lines != wanted:
        print(machine.output, "said:", lines, "wanted:", wanted, sep="\n")
    expect(lines == wanted, "unmodified programs in a machine, over TCP")
    until(lambda: not world.guests(), "the ends")
    use = json_of(world.info())["networks"][0]
    expect(use["attached"] == 2, "each was a guest of the network", world.info())


def loops_of(milliseconds):
    """Of a kernel that takes so long when nobody else is there."""
    alone = vgpu("run", "--direct", "--", str(BUILD / "lib/bench/vgpu-bench-share"), "calibrate")
    return int(json.loads(alone.stdout)["loops"] * milliseconds)


def ends_of(machine):
    """Kernels that ended, by twentieths of a second, and when the last of these was."""
    lines = [line for line in machine.wait() if line.startswith("ends ")]
    if len(lines) != 1:
        print(machine.output)
    expect(len(lines) == 1, f"{machine.tenant}: its program ends")
    return json.loads(lines[0].removeprefix("ends "))["ends"], machine.said_at


def kernels(machine, ends, late_seconds):
    """How many in the last seconds before the machine that is through first was."""
    end = len(ends) - round(late_seconds * BUCKETS_PER_SECOND)
    window = ends[max(0, end - WINDOW_SECONDS * BUCKETS_PER_SECOND):max(0, end)]
    expect(sum(window[:BUCKETS_PER_SECOND]) > 0, f"{machine.tenant}: it was there in time")
    return sum(window)


def weights(world, folder, package):
    script = SHARE.format(loops=loops_of(KERNEL_MS), seconds=END_SECONDS)
    apps = [(BUILD / "lib/bench/vgpu-bench-share", "/apps/share")]
    machines = [Machine(world, folder, tenant, script, apps, package) for tenant in WEIGHTS]
    try:
        results = [ends_of(machine) for machine in machines]
    finally:
        for machine in machines:
            machine.stop()
    first = min(end for _, end in results)
    heavy, light = [kernels(machine, ends, end - first)
                    for machine, (ends, end) in zip(machines, results)]
    print(f"kernels of {KERNEL_MS} ms in {WINDOW_SECONDS} s: {heavy}, {light}")
    expect(light > 0 and heavy / light >= RATIO_MIN, "two machines share a device by weight")


def main():
    missing = [name for name in ("qemu-system-x86_64", "busybox", "apt-get", "dpkg")
               if shutil.which(name) is None]
    if missing:
        print(f"skipped: no {missing[0]} here: tools/install_dependencies.sh --vm")
        sys.exit(SKIPPED)
    with tempfile.TemporaryDirectory(prefix="vgpu-vm-") as folder:
        package = f"{folder}/guest.tar.gz"
        subprocess.run([sys.executable, HERE.parents[1] / "tools/guest_package.py", BUILD, package],
                       check=True)
        options = []
        if sys.argv[2] == "weights":
            (pathlib.Path(folder) / "vgpud.toml").write_text(CONFIGURATION)
            options = ["--scheduler", "fair", "--config", f"{folder}/vgpud.toml"]
        # Any address: a machine sees this host under one that the host itself does not know.
        world = World(folder, *options, host="0.0.0.0")
        try:
            globals()[sys.argv[2]](world, folder, package)
        finally:
            world.end()
        expect(world.server.returncode == 0, f"vgpud ended with {world.server.returncode}")


if __name__ == "__main__":
    main()
