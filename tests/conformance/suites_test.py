#!/usr/bin/env python3
# Every suite of the conformance program is run by some test of ctest's.
# SPDX-License-Identifier: Apache-2.0
"""Usage: suites_test.py PROGRAM FILTER…"""
import fnmatch
import subprocess
import sys

OF_OTHERS = ("Child", "Fresh")  # run in a process of their own, by tests of other suites


def main():
    program, filters = sys.argv[1], sys.argv[2:]
    patterns = [pattern for each in filters for pattern in each.split(":")]
    listed = subprocess.run([program, "--gtest_list_tests"], capture_output=True, text=True,
                            check=True).stdout.splitlines()
    suites = [line.split()[0] for line in listed if line and not line.startswith((" ", "Running"))]
    lost = [suite for suite in suites
            if not any(word in suite for word in OF_OTHERS)
            and not any(fnmatch.fnmatchcase(suite + "x", pattern) for pattern in patterns)]
    if len(suites) < 10 or lost:
        sys.exit(f"of {len(suites)} suites no filter in CMakeLists.txt runs: {', '.join(lost)}")


if __name__ == "__main__":
    main()
