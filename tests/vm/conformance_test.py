#!/usr/bin/env python3
# The conformance suite in a virtual machine under QEMU's emulation, on this host's server.
# SPDX-License-Identifier: Apache-2.0
"""Usage: conformance_test.py BUILD FILTER…

Each filter names the suites of one family, as tests/conformance/CMakeLists.txt does.
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
from harness import BUILD, environment, expect, server, until

SKIPPED = 77
SIZE = "256M"
PROGRAMS_MAX = 6
RUN_SECONDS_MAX = 1500
SUITE = BUILD / "tests/conformance/vgpu_conformance"
# What a machine's programs do not have is skipped, after the device has said so.
SCRIPT = r"""
modules
vgpu-agent --listen unix:/run/vgpu/vgpud.sock &
n=0; while [ $n -lt 300 ] && ! vgpu info > /tmp/info; do n=$((n+1)); sleep 0.1; done
export VGPU_TEST_BACKEND=machine VGPU_TEST_LIBRARY=/usr/lib/vgpu/guest/libcuda.so.1
while read -r filter; do
  /suite --gtest_brief=1 --gtest_filter="$filter" > /tmp/out 2>&1
  code=$?
  say "exit $code $(grep -E '^.  (PASSED|SKIPPED)' /tmp/out | tail -n 2 | tr '\n' ' ') of $filter"
  [ $code = 0 ] || cat /tmp/out
done < /filters
"""


def tests_of(filter_text):
    """How many a filter names."""
    listed = subprocess.run([str(SUITE), "--gtest_list_tests", f"--gtest_filter={filter_text}"],
                            capture_output=True, text=True, check=True).stdout
    return len([line for line in listed.splitlines()
                if line.startswith("  ") and not line.strip().startswith("DISABLED_")])


def ran_of(line):
    """Exit code, and how many passed or were skipped."""
    # The last of each: before it stands what tests' own children have said.
    counts = dict(re.findall(r"(PASSED|SKIPPED) +\] (\d+)", line))
    return int(re.search(r"exit (\d+)", line).group(1)), sum(map(int, counts.values()))


def machine(host, folder, filters):
    """What the suite said in a machine, whole."""
    link = f"{folder}/vm.link"
    package = f"{folder}/guest.tar.gz"
    subprocess.run([sys.executable, HERE.parents[1] / "tools/guest_package.py", BUILD, package],
                   check=True)
    (pathlib.Path(folder) / "filters").write_text("".join(f"{each}\n" for each in filters))
    kernel = guest.kernel(BUILD / "vm-kernel")
    guest.make_image(f"{folder}/vm.img", package, SCRIPT, [(SUITE, "/suite")], [],
                     [(f"{folder}/filters", "/filters")])
    vm = subprocess.Popen(
        [str(BUILD / "bin/vgpu-vm"), "--name", "vm1", "--server", host, "--size", SIZE,
         "--programs", str(PROGRAMS_MAX), "--qemu", link], env=environment())
    try:
        until(lambda: pathlib.Path(link).exists(), "vgpu-vm")
        return subprocess.run(
            guest.qemu_command(kernel, f"{folder}/vm.img", guest.doorbell_devices(link),
                               processors=2, mib=1536),
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            errors="replace", timeout=RUN_SECONDS_MAX, check=False).stdout
    finally:
        vm.terminate()
        vm.wait()


def main():
    filters = sys.argv[2:]
    for name in ("qemu-system-x86_64", "busybox", "apt-get", "dpkg"):
        if shutil.which(name) is None:
            print(f"skipped: no {name} here: tools/install_dependencies.sh --vm")
            sys.exit(SKIPPED)
    with server("soft", VGPU_SOFTGPU_CACHE=str(BUILD / "softgpu-cache")) as host, \
            tempfile.TemporaryDirectory(prefix="vgpu-vm-") as folder:
        output = machine(host, folder, filters)
    lines = guest.said(output)
    print("\n".join(lines))
    expected = {each: tests_of(each) for each in filters}
    faults = [each for each, count in expected.items()
              if not any(line.endswith(f" of {each}") and ran_of(line) == (0, count)
                         for line in lines)]
    if faults:
        print(output)
    expect(not faults, f"{sum(expected.values())} tests of {len(filters)} families; {faults}")


if __name__ == "__main__":
    main()
