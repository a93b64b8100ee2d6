#!/usr/bin/env python3
# What docs/coverage.md says is refused gives CUDA_ERROR_NOT_SUPPORTED, and one line of the log that
# names it, however often it is called.
# SPDX-License-Identifier: Apache-2.0
"""Usage: refused_test.py --library LIBCUDA"""

import argparse
import ctypes
import os
import pathlib
import re
import subprocess
import sys

NOT_SUPPORTED = 801
COVERAGE = pathlib.Path(__file__).resolve().parents[2] / "docs/coverage.md"


def refused():
    return re.findall(r"^\| `(\w+)` \| refused \|", COVERAGE.read_text(), re.M)


def call_all(library):
    """In a process of its own, whose log is read."""
    functions = ctypes.CDLL(library)
    wrong = [name for name in refused() for _ in range(2)
             if getattr(functions, name)() != NOT_SUPPORTED]
    sys.exit(f"other codes: {sorted(set(wrong))}" if wrong else 0)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--library", required=True)
    parser.add_argument("--child", action="store_true")
    arguments = parser.parse_args()
    if arguments.child:
        call_all(arguments.library)
    child = subprocess.run(
        [sys.executable, __file__, "--child", "--library", arguments.library],
        env=dict(os.environ, VGPU_LOG="warn"), stderr=subprocess.PIPE, text=True, timeout=50)
    if child.returncode != 0:
        sys.exit(child.stderr)
    names = refused()
    told = re.findall(r"(\w+) is not supported by", child.stderr)
    print(f"{len(names)} refused, {len(told)} lines")
    if len(names) < 100 or sorted(told) != sorted(names):
        sys.exit(f"not named once: {sorted(set(told) ^ set(names))}, {len(told)} lines")


if __name__ == "__main__":
    main()
