#!/usr/bin/env python3
# The metrics endpoint of vgpud: what it says of guests, and what clients cannot do to the server.
# SPDX-License-Identifier: Apache-2.0
"""Usage: endpoint_test.py BUILD …"""
import os
import pathlib
import socket
import sys
import time
import urllib.error
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from scrape import guest, scrape, server_with_metrics, value  # noqa: E402
from harness import expect, json_of, until, vgpu  # noqa: E402

MIB = 1 << 20


def check_guests(address, target):
    before = scrape(target)
    expect(value(before, "vgpu_server_guests") == 0, "no guests at first")
    expect("vgpu_memory_limit_bytes" not in before, "and no series of guests")
    tenant = f"uid-{os.getuid()}"
    with guest(address, "blue", "256M", 100) as blue, guest(address, "red", "128M", 10, "idle"):
        until(lambda: (value(scrape(target), "vgpu_memory_used_bytes", vgpu="blue") or 0) >=
              100 * MIB, "the guest's memory")
        first = scrape(target)
        expect(value(first, "vgpu_server_guests") == 2, "two guests")
        expect(value(first, "vgpu_memory_limit_bytes", vgpu="blue", gpu="0") == 256 * MIB,
               "the quota of each")
        expect(value(first, "gpu_memory_granted_bytes", gpu="0") == 384 * MIB, "their sum")
        expect(value(first, "vgpu_info", vgpu="blue", pid=str(blue.pid)) == 1, "its process")
        expect(value(first, "vgpu_share_cap_ratio", vgpu="red") == 1, "no cap")
        expect(value(first, "vgpu_oom_total", vgpu="red") == 0, "zeros from the beginning")
        expect(value(first, "vgpu_tenant_guests", tenant=tenant) == 2, "the tenant's guests")
        expect(value(first, "DCGM_FI_DEV_FB_USED", gpu="0") >= 100, "memory as NVIDIA's exporter")
        until(lambda: value(scrape(target), "vgpu_sm_time_seconds_total", vgpu="blue") > 0,
              "device time of who computes")
        first = scrape(target)
        time_before = value(first, "vgpu_sm_time_seconds_total", vgpu="blue")
        until(lambda: value(scrape(target), "gpu_kernels_total") is not None, "a second reading")
        later = scrape(target)
        for name, series in first.items():
            for labels, number in series:
                now = value(later, name, **labels) if name.endswith("_total") else None
                expect(now >= number, f"{name} grows") if now is not None and now < number else None
        expect(value(later, "vgpu_sm_time_seconds_total", vgpu="blue") >= time_before,
               "counters never go back")
        until(lambda: value(scrape(target), "vgpu_sm_time_seconds_total", vgpu="blue") >
              time_before, "and the time of who computes grows")
        expect(value(first, "vgpu_queue_wait_seconds_bucket", vgpu="red", le="+Inf") ==
               value(first, "vgpu_queue_wait_seconds_count", vgpu="red"),
               "a histogram ends with everything")
    until(lambda: value(scrape(target), "vgpu_server_guests") == 0, "the guests' end")
    after = scrape(target)
    expect("vgpu_memory_limit_bytes" not in after and "vgpu_info" not in after,
           "series go with their guest")
    expect(value(after, "vgpu_tenant_guests", tenant=tenant) == 0, "the tenant stays")
    for name in ("sm_time_seconds_total", "kernels_total"):
        expect(value(after, f"vgpu_tenant_{name}", tenant=tenant) >=
               value(later, f"vgpu_tenant_{name}", tenant=tenant), f"with its {name}")
    expect(value(after, "vgpu_server_attached_total") == 2, "two were admitted")


def check_refusals(address, target):
    before = value(scrape(target), "vgpu_server_refused_total")
    result = vgpu("run", "--server", address, "--mem", "900G", "--", sys.executable, "-c",
                  "import ctypes; ctypes.CDLL('libcuda.so.1').cuInit(0)")
    expect(result.returncode == 0, "a guest asks for too much", result)
    for _ in range(50):  # an answer may be as old as the one before it
        after = value(scrape(target), "vgpu_server_refused_total")
        if after != before:
            break
        time.sleep(0.1)
    expect(after == before + 1, f"refusals are counted: {before} before, {after} after")


def check_hostile_clients(address, target):
    host, port = target.split(":")
    pid = json_of(vgpu("info", "--json", "--server", address))["pid"]
    descriptors = len(os.listdir(f"/proc/{pid}/fd"))
    idle = []
    for i in range(200):
        client = socket.socket()
        client.settimeout(0.5)
        try:
            client.connect((host, int(port)))
            client.send(b"GET /metrics HTTP/1.1\r\n" if i % 2 else b"")
        except OSError:
            pass  # its queue is full
        idle.append(client)
    began = time.monotonic()
    result = vgpu("info", "--server", address)
    expect(result.returncode == 0 and time.monotonic() - began < 5,
           "vgpud answers while 200 clients say nothing", result)
    more = len(os.listdir(f"/proc/{pid}/fd")) - descriptors
    expect(more < 100, f"and holds {more} descriptors for them")
    for client in idle:
        client.close()
    # Each that had got in is waited for in turn.
    until(lambda: works(target), "the endpoint's recovery")
    expect(True, "when they have gone, so does the endpoint")


def works(target):
    try:
        return value(scrape(target), "vgpu_server_guests") is not None
    except OSError:
        return False


def check_other_paths(target):
    for path in ("/", "/etc/passwd", "/../../etc/passwd", "/metrics/../x"):
        try:
            with urllib.request.urlopen(f"http://{target}{path}", timeout=10) as answer:
                expect(False, f"{path} gives {answer.status}")
        except urllib.error.HTTPError as error:
            expect(error.code in (400, 403, 404, 405), f"{path} is refused: {error.code}")


def main():
    with server_with_metrics() as (address, target):
        check_guests(address, target)
        check_refusals(address, target)
        check_other_paths(target)
        check_hostile_clients(address, target)


if __name__ == "__main__":
    main()
