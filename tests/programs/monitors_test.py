#!/usr/bin/env python3
# pynvml, gpustat and nvitop as guests of a server where others compute.
# SPDX-License-Identifier: Apache-2.0
"""Usage: monitors_test.py BUILD PACKAGES. Exit code 77 when the packages were not fetched."""
import contextlib
import json
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "cli"))
import harness  # noqa: E402
from harness import VGPU, environment, expect, vgpu  # noqa: E402

PYTHON = str(pathlib.Path(sys.argv[2]).absolute() / "bin/python")
MIB = 1 << 20
NOT_SUPPORTED = 3


@contextlib.contextmanager
def guest(address, name, quota, mebibytes, *more):
    """A guest that has its memory and computes, or is idle."""
    process = subprocess.Popen(
        [VGPU, "run", "--server", address, "--name", name, "--mem", quota, "--", sys.executable,
         str(HERE / "busy_guest.py"), str(mebibytes), *more],
        env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        expect(process.stdout.readline() == "ready\n", f"the guest {name} computes")
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


def run(address, *words, name=""):
    """A monitor under `vgpu run`; its output."""
    naming = ["--name", name] if name else []
    result = vgpu("run", "--server", address, *naming, "--", PYTHON, *words, VGPU_MEM="96M",
                  TERM="dumb", PYTHONDONTWRITEBYTECODE="1")
    expect(result.returncode == 0, f"{' '.join(pathlib.Path(w).name for w in words)} runs", result)
    return result.stdout


def pynvml(address, *words, name=""):
    return json.loads(run(address, str(HERE / "nvml_read.py"), *words, name=name))


def check_alone(address):
    answer = pynvml(address, "guest")
    before, after = answer["before"], answer["after"]
    expect(answer["count"] == 1 and before["name"] == "vGPU software GPU", "pynvml: one vGPU")
    expect(before["total"] == 96 * MIB == answer["cuda_total"] == after["total"],
           "memory is the quota, before and after the first CUDA call")
    expect(answer["cuda"] == answer["cuda_version"], "CUDA's version as CUDA says it")
    expect(not before["processes"] and list(after["processes"]) and after["graphics"] == 0,
           "the process appears when it is a guest")
    expect(before["temperature"] == before["power"] == NOT_SUPPORTED, "no sensors are made up")


def check_pynvml(address, blue, red):
    answer = pynvml(address)["before"]
    expect(answer["total"] == (256 + 128) * MIB, "a monitor sees both guests' quotas")
    expect(set(answer["processes"]) == {str(blue.pid), str(red.pid)}, "and both processes")
    expect(100 * MIB <= answer["processes"][str(blue.pid)] < 256 * MIB, "with their memory")
    expect(answer["total"] == answer["used"] + answer["free"], "which add up")
    expect(0 < answer["gpu"] <= 100, f"and how busy they are: {answer['gpu']} %")
    answer = pynvml(address, name="red")["before"]
    expect(set(answer["processes"]) == {str(red.pid)} and answer["total"] == 128 * MIB,
           "a monitor of the same name sees that one")
    expect(answer["gpu"] == 0, "which is idle")
    answer = pynvml(address, "guest", name="green")
    expect(not answer["before"]["processes"], "another name sees neither")
    expect(len(answer["after"]["processes"]) == 1 and answer["after"]["total"] == 96 * MIB,
           "a guest sees itself alone")


def check_gpustat(address, blue):
    answer = json.loads(run(address, "-m", "gpustat", "--json", name="blue"))
    gpu = answer["gpus"][0]
    expect(len(answer["gpus"]) == 1 and gpu["memory.total"] == 256, "gpustat: memory is the quota")
    expect([p["pid"] for p in gpu["processes"]] == [blue.pid], "gpustat: the guest's process")
    expect(100 <= gpu["memory.used"] < 256, "gpustat: what it uses")
    expect(0 < gpu["utilization.gpu"] <= 100, f"gpustat: busy {gpu['utilization.gpu']} %")
    expect(gpu["temperature.gpu"] is None and gpu["power.draw"] is None, "gpustat: no sensors")


def check_nvitop(address, blue, red):
    text = run(address, "-m", "nvitop", "-1", name="blue")
    expect("vGPU software GPU" in text and "256.0MiB" in text, "nvitop: memory is the quota")
    expect(str(blue.pid) in text and f" {red.pid} " not in text, "nvitop: the guest's process")


def check_without_server():
    result = vgpu("run", "--no-check", "--server", "unix:/nonexistent/vgpud.sock", "--", PYTHON,
                  str(HERE / "nvml_read.py"))
    expect("NVMLError_DriverNotLoaded" in result.stderr, "without a server there is no driver",
           result)


def main():
    if not (pathlib.Path(sys.argv[2]) / "packages.txt").exists():
        print(f"skipped: no Python packages in {sys.argv[2]} "
              "(tests/programs/fetch_packages.py takes them, and needs a network)")
        sys.exit(77)
    with harness.server("soft", "--scheduler", "fair") as address:
        check_alone(address)
        with guest(address, "blue", "256M", 100) as blue, \
                guest(address, "red", "128M", 10, "idle") as red:
            check_pynvml(address, blue, red)
            check_gpustat(address, blue)
            check_nvitop(address, blue, red)
    check_without_server()


if __name__ == "__main__":
    main()
