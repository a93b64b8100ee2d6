#!/usr/bin/env python3
# Makes nvml/spec/symbols.toml: the names of NVML's functions, from the vendor's headers.
# SPDX-License-Identifier: Apache-2.0
"""Usage: symbol_names.py --header nvml.h [--header OTHER.h …] (--update | --check).

The list only grows: headers of several versions are laid together, since a library must have the
names of all of them. --check fails when a header has a name that the list has not.
"""
import argparse
import re
import sys
import tomllib
from pathlib import Path

FILE = Path(__file__).resolve().parents[1] / "spec" / "symbols.toml"
DECLARED = re.compile(r"\bDECLDIR\b[\w\s*]*?\b(nvml\w+)\s*\(")
# Exported and in no header: nvidia-smi asks for private tables with it.
PRIVATE = {"nvmlInternalGetExportTable"}
HEAD = """\
# Every name that NVML has had, in all versions of its headers.
# Made by nvml/codegen/symbol_names.py.
"""


def declared(header):
    text = re.sub(r"/\*.*?\*/|//[^\n]*", "", Path(header).read_text(errors="replace"), flags=re.S)
    return set(DECLARED.findall(text))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--header", action="append", required=True)
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    known = set(tomllib.loads(FILE.read_text())["names"]) if FILE.exists() else set()
    found = PRIVATE.union(*(declared(header) for header in options.header))
    if options.update:
        rows = "".join(f'  "{name}",\n' for name in sorted(known | found))
        FILE.write_text(f"{HEAD}names = [\n{rows}]\n")
        return 0
    missing = sorted(found - known)
    if len(found) < 100:
        missing.append(f"(only {len(found)} names were found in the headers)")
    print("\n".join(f"not in {FILE.name}: {name}" for name in missing) or "symbols.toml has all")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
