#!/usr/bin/env python3
# info, doctor and stop against a real server (on the driver that does nothing).
# SPDX-License-Identifier: Apache-2.0
from harness import BUILD, expect, json_of, server, vgpu


def main():
    with server(BUILD / "lib/bench/libcuda-null.so") as address:
        result = vgpu("info", "--server", address)
        expect(result.returncode == 0 and "no guests" in result.stdout, "info as text", result)
        info = json_of(vgpu("info", "--json", "--server", address))
        expect(info["answers"] and info["devices"][0]["name"] == "nothing", "info as JSON")
        info = json_of(vgpu("info", "--json", VGPU_SERVER=address))
        expect(info["address"] == address, "VGPU_SERVER names the server")
        found = {finding["what"]: finding for finding in
                 json_of(vgpu("doctor", "--json", "--server", address))["findings"]}
        expect(found["server"]["verdict"] == "ok", "doctor finds the server")
        result = vgpu("stop", "--server", address)
        expect(result.returncode == 0 and "0 guests go on" in result.stdout, "stop", result)
        expect(vgpu("info", "--server", address).returncode == 1, "it is gone then")


if __name__ == "__main__":
    main()
