#!/usr/bin/env python3
# Real virtual machines under QEMU's emulation: unmodified programs in them use this host's server.
# SPDX-License-Identifier: Apache-2.0
"""Usage: machine_test.py BUILD plain|doorbell|interrupts|two"""
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "cli")]
import guest
from harness import BUILD, environment, expect, json_of, server, until, vgpu

SIZE = "64M"
SKIPPED = 77
START_AGENT = """
modules
vgpu-agent --listen unix:/run/vgpu/vgpud.sock {options} &
n=0; while [ $n -lt 300 ] && ! vgpu info > /tmp/info; do n=$((n+1)); sleep 0.1; done
"""
RUN_TWICE = r"""
for turn in 1 2; do
  vgpu run -- /apps/vecadd > /tmp/out; say exit $?; say printed "$(tr '\n' ' ' < /tmp/out)"
done
vgpu run -- /apps/holder 3 > /tmp/out; say exit $?; say printed "$(tail -n 1 /tmp/out)"
"""
HOLD = r"""
vgpu run -- /apps/holder 30 > /tmp/out &
holder=$!
vgpu run -- /apps/vecadd > /tmp/out2; say exit $?; say printed "$(tr '\n' ' ' < /tmp/out2)"
wait $holder; say exit $?; say printed "$(tail -n 1 /tmp/out)"
"""
APPS = [(BUILD / "tests/apps/vecadd", "/apps/vecadd"),
        (BUILD / "tests/vm/vgpu_vm_holder", "/apps/holder")]


class Machine:
    """vgpu-vm and QEMU, from start to the machine's own end."""

    def __init__(self, host, folder, name, kind, script, package, apps=None):
        self.name = name
        link = f"{folder}/{name}.link"
        interrupts = kind == "interrupts"
        option = ["--memory", link] if kind == "plain" else ["--qemu", link]
        kernel = guest.kernel(BUILD / "vm-kernel")
        modules = guest.modules_of(kernel, guest.VFIO_MODULES) if interrupts else []
        script = START_AGENT.format(options="--interrupts yes" if interrupts else "") + script
        guest.make_image(f"{folder}/{name}.img", package, script, apps or APPS, modules)
        self.vm = subprocess.Popen(
            [str(BUILD / "bin/vgpu-vm"), "--name", name, "--server", host, "--size", SIZE,
             "--programs", "2", *option], env=environment(), stderr=subprocess.PIPE, text=True)
        until(lambda: pathlib.Path(link).exists(), "vgpu-vm")
        devices = (guest.plain_devices(link, SIZE) if kind == "plain"
                   else guest.doorbell_devices(link))
        append, machine = "", "q35"
        if interrupts:
            devices = ["-device", "intel-iommu,intremap=on", *devices]
            append, machine = "intel_iommu=on", "q35,kernel-irqchip=off"
        self.qemu = subprocess.Popen(
            guest.qemu_command(kernel, f"{folder}/{name}.img", devices, append, machine),
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            errors="replace")
        self.output = ""

    def wait(self):
        try:
            self.output = self.qemu.communicate(timeout=guest.BOOT_SECONDS_MAX)[0]
        finally:
            self.stop()
        return guest.said(self.output)

    def stop(self):
        if self.qemu.poll() is None:
            self.qemu.kill()
            self.output += self.qemu.communicate()[0]
        if self.vm.poll() is None:
            self.vm.terminate()
            sys.stderr.write(self.vm.communicate()[1])


class Watch:
    """What the host's server shows while machines run: the names of guests, seen at once."""

    def __init__(self, address):
        self.address, self.seen, self.over = address, set(), threading.Event()
        self.thread = threading.Thread(target=self.look, daemon=True)

    def look(self):
        while not self.over.wait(0.2):
            result = vgpu("info", "--json", "--server", self.address)
            if result.returncode == 0:
                self.seen.add(tuple(sorted({one["name"] for one in json_of(result)["guests"]})))

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()


def judge(machine, lines, expected):
    if lines != expected:
        print(machine.output)
        print("said:", lines)
    expect(lines == expected, f"{machine.name}: the programs' results")


def freed(host):
    start = time.monotonic()
    until(lambda: not json_of(vgpu("info", "--json", "--server", host))["guests"], "the ends")
    expect(time.monotonic() - start < 10, "the machine's guests are gone with it")


def printed_directly():
    result = vgpu("run", "--direct", "--", str(APPS[0][0]))
    expect(result.returncode == 0, "vecadd runs directly", result)
    return " ".join(result.stdout.split("\n")).strip()


def main():
    kind = sys.argv[2]
    missing = [name for name in ("qemu-system-x86_64", "busybox", "apt-get", "dpkg")
               if shutil.which(name) is None]
    if missing:
        print(f"skipped: no {missing[0]} here: tools/install_dependencies.sh --vm")
        sys.exit(SKIPPED)
    direct = ["exit 0", f"printed {printed_directly()}"]
    held = ["exit 0", "printed done 0"]
    with server("soft", VGPU_SOFTGPU_CACHE=str(BUILD / "softgpu-cache")) as host, \
            tempfile.TemporaryDirectory(prefix="vgpu-vm-") as folder, Watch(host) as watch:
        package = f"{folder}/guest.tar.gz"
        subprocess.run([sys.executable, HERE.parents[1] / "tools/guest_package.py", BUILD, package],
                       check=True)
        if kind == "two":
            machines = [Machine(host, folder, name, "plain", HOLD, package)
                        for name in ("vm1", "vm2")]
            try:
                for machine in machines:
                    judge(machine, machine.wait(), direct + held)
            finally:
                for machine in machines:
                    machine.stop()
            expect(("vm1", "vm2") in watch.seen, "the host showed guests of both at once")
        else:
            machine = Machine(host, folder, "vm1", kind, RUN_TWICE, package)
            judge(machine, machine.wait(), 2 * direct + held)
            expect(("vm1",) in watch.seen, "the host showed the machine's guest")
        freed(host)


if __name__ == "__main__":
    main()
