#!/usr/bin/env python3
# Verbs on Soft-RoCE in a virtual machine: the tests of remote guests, with RDMA below them.
# SPDX-License-Identifier: Apache-2.0
"""Usage: rdma_test.py BUILD

The machine's network device carries rdma_rxe; server, gate and guests are in the same machine. The
driver of the server is the memory double: what is tried is the way, not the GPU.
"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "cli")]
import guest
from harness import BUILD, expect

SKIPPED = 77
MODULES = guest.NETWORK_MODULES + ["crc32_generic", "rdma_rxe", "ib_uverbs", "rdma_ucm"]
DRIVER = pathlib.Path("/usr/lib/x86_64-linux-gnu/libibverbs/librxe-rdmav34.so")
DRIVER_LIST = pathlib.Path("/etc/libibverbs.d/rxe.driver")
TEST = BUILD / "tests/lifecycle/lifecycle_remote_test"
# In the machine where they are here: the test has their paths.
DOUBLE = BUILD / "lib/memory_driver/libcuda.so.1"
HOLDER = BUILD / "tests/vm/vgpu_vm_holder"
VGPU = BUILD / "bin/vgpu"
PROGRAMS = [TEST, BUILD / "tests/net/plain_gate", BUILD / "bin/vgpud", BUILD / "bin/vgpu-worker",
            DOUBLE, HOLDER, VGPU, BUILD / "bin/vgpu-gate", BUILD / "lib/guest/libcuda.so.1",
            BUILD / "lib/guest/libvgpu-net.so"]
OWN = "10.0.2.15"
SERVER = f"tcp://{OWN}:7470"
# How much time idle sides take is a matter of a quicker machine.
SCRIPT = guest.NETWORK_UP + f"""
rdma link add rxe0 type rxe netdev eth0 || say no device
active() {{ grep -q ACTIVE /sys/class/infiniband/rxe0/ports/1/state; }}
n=0; until active || [ $n = 100 ]; do n=$((n+1)); sleep 0.1; done
export VGPU_TEST_PROVIDER=verbs VGPU_TEST_HOST={OWN}
{TEST} --gtest_filter=-*IdleSides* > /tmp/out 2>&1; say exit $?
cat /tmp/out
"""
# The same with keys, gate and guest library: a program, as docs/network.md has it.
PROGRAM = f"""
{VGPU} key trust {SERVER} $({VGPU} key create --server)
{VGPU} key authorize $({VGPU} key create) team-a
VGPU_SOFT_DRIVER={DOUBLE} {BUILD}/bin/vgpud --listen unix:/run/vgpu/vgpud.sock --listen {SERVER} \
  --driver soft > /tmp/log 2>&1 &
info() {{ {VGPU} info --server {SERVER} > /tmp/info 2>&1; }}
n=0; until info || [ $n = 100 ]; do n=$((n+1)); sleep 0.2; done
for emulate in "" cut=30,seed=3; do
  VGPU_NET_EMULATE=$emulate {VGPU} run --no-check --server "{SERVER}?provider=verbs" -- {HOLDER} 3 \
    > /tmp/out 2>&1; say exit $?
  say printed "$(tail -n 1 /tmp/out)"
  cat /tmp/out
done
say cuts $(grep -c "is cut" /tmp/log)
cat /tmp/info /tmp/log
"""
CUTS_MIN = 3  # the end of each program is one


def skip(why):
    print(f"skipped: {why}")
    sys.exit(SKIPPED)


def main():
    for name in ("qemu-system-x86_64", "busybox", "apt-get", "dpkg", "rdma"):
        if shutil.which(name) is None:
            skip(f"no {name} here: tools/install_dependencies.sh --vm")
    if not DRIVER.exists():
        skip(f"no {DRIVER.name} here: tools/install_dependencies.sh --vm")
    kernel = guest.kernel(BUILD / "vm-kernel-rdma", guest.RDMA_KERNEL_PACKAGE)
    with tempfile.TemporaryDirectory(prefix="vgpu-vm-") as folder:
        # Sessions run as users of their own, who read that list, too.
        programs = [(path, str(path)) for path in [*PROGRAMS, DRIVER, DRIVER_LIST]]
        programs.append((shutil.which("rdma"), "/usr/bin/rdma"))
        guest.make_image(f"{folder}/image", None, SCRIPT + PROGRAM, programs,
                         guest.modules_of(kernel, MODULES))
        machine = subprocess.run(
            guest.qemu_command(kernel, f"{folder}/image", guest.network_devices(restricted=True),
                               processors=2, mib=1536),
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            errors="replace", timeout=guest.BOOT_SECONDS_MAX, check=False)
    lines = guest.said(machine.stdout)
    ran = re.search(r"\[  PASSED  \] (\d+) tests?", machine.stdout)
    wanted = ["exit 0", *2 * ["exit 0", "printed done 0"]]
    if lines[:-1] != wanted or ran is None:
        print(machine.stdout, "said:", lines)
    expect(lines[:1] == ["exit 0"] and ran is not None and int(ran.group(1)) >= 6,
           "remote guests by verbs")
    expect(lines[:-1] == wanted, "a program, with keys and gate, by verbs, and again with cuts")
    expect(int(lines[-1].removeprefix("cuts ")) >= CUTS_MIN, f"{lines[-1]} and resumed")


if __name__ == "__main__":
    main()
