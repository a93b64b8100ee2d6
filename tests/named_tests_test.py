#!/usr/bin/env python3
# Every test that a page of docs/ names in a table of tests exists.
# SPDX-License-Identifier: Apache-2.0
"""usage: named_tests_test.py BUILD SOURCE PROGRAM...

The tests are those of `ctest -N` in BUILD and of the Google Test PROGRAMs, which ctest knows by
family only. In the tables a name stands in backticks and has a dot; `*` stands for anything, and
parameters of tests are left out.
"""
import fnmatch
import pathlib
import re
import subprocess
import sys

# page -> the heading behind which its tables name tests; "" for all of it
PAGES = {
    "docs/api.md": "",
    "docs/known-cases.md": "",
    "docs/sharing.md": "## What shows it",
    "docs/softgpu.md": "## What shows it",
}
NAME = re.compile(r"`([A-Za-z][\w*-]*(?:\.[\w*.-]+)+)`")
ELSEWHERE = ("fuzz.",)  # of the preset for fuzzers
FILES = re.compile(r"\.(md|py|cc|h|toml|json|so(\.\d+)*)$")


def bare(name):
    """A test's name without what its parameters add."""
    return re.sub(r"^\w+/", "", name).split("/")[0]


def output(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def of_ctest(build):
    text = output("ctest", "--test-dir", build, "-N")
    return {bare(name) for name in re.findall(r"^ *Test +#\d+: (\S+)", text, re.M)}


def of_program(program):
    suite, names = "", set()
    for line in output(program, "--gtest_list_tests").splitlines():
        word = line.split("#")[0].strip()
        if not line.startswith(" "):
            suite = word
        elif word:
            names.add(bare(suite + word))
    return names


def named(page, heading):
    text = page.read_text()
    text = text[text.index(heading):] if heading else text
    rows = [line for line in text.splitlines() if line.startswith("|")]
    return [name for row in rows for name in NAME.findall(row) if not FILES.search(name)]


def main():
    build, source, programs = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3:]
    known = of_ctest(build).union(*map(of_program, programs))
    faults = looked_at = 0
    for page, heading in PAGES.items():
        for name in named(source / page, heading):
            looked_at += 1
            if name.startswith(ELSEWHERE):
                continue
            if not any(fnmatch.fnmatchcase(each, name) for each in known):
                faults += 1
                print(f"{page}: there is no test `{name}`")
    print(f"{looked_at} names, {faults} faults")
    return 1 if faults or not looked_at else 0


if __name__ == "__main__":
    sys.exit(main())
