#!/usr/bin/env python3
# Every program in this folder is run in a guest and its output compared with a direct run's, byte
# for byte: none is left out of that by mistake.
# SPDX-License-Identifier: Apache-2.0
"""Usage: every_program_test.py CTEST BUILD"""
import json
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
# Programs that are not compared, and why.
EXCEPT = {
    "exit_compiling": "ends while the software GPU compiles, which a guest does not do",
    "rdc_other": "the other half of rdc",
    "each_device": "a guest's counts with it are what is tested (device_counts_test.py)",
}
NAMES = {"rdc_main": "rdc"}


def main():
    ctest, build = sys.argv[1:]
    listed = subprocess.run([ctest, "--test-dir", build, "-N", "--show-only=json-v1"], check=True,
                            stdout=subprocess.PIPE).stdout
    compared = set()
    for test in json.loads(listed)["tests"]:
        command = test.get("command", [])
        if any(part.endswith("/run_app.py") for part in command) and "shm" in command:
            if "--any-order" not in command:
                compared.add(pathlib.Path(command[command.index("shm") + 1]).name)
    sources = {path.stem for pattern in ("*.cu", "*.cc") for path in HERE.glob(pattern)}
    missing = {name for name in sources - EXCEPT.keys() if NAMES.get(name, name) not in compared}
    print(f"{len(sources)} programs, {len(sources) - len(missing) - len(EXCEPT)} compared")
    if missing or not EXCEPT.keys() <= sources:
        sys.exit(f"not compared: {sorted(missing)}; unknown: {sorted(EXCEPT.keys() - sources)}")


if __name__ == "__main__":
    main()
