#!/usr/bin/env python3
# Makes api/spec/symbols.toml from a toolkit: its typedef headers and the names its stub exports.
# SPDX-License-Identifier: Apache-2.0
"""Usage: symbol_versions.py --include FOLDER --stub libcuda.so (--out FILE | --check FILE).

The headers say in which version each form of a name came (PFN_cuFoo_v11020_ptsz); the library says
which symbols there are (cuFoo, cuFoo_v2). Both lists of a name are sorted and laid side by side
from the newest, because the oldest forms may have lost either their typedef or their symbol.
"""

import argparse
import re
import subprocess
import sys
import tomllib
from pathlib import Path

HEADERS = [
    "cudaTypedefs.h",
    "cudaEGLTypedefs.h",
    "cudaGLTypedefs.h",
    "cudaProfilerTypedefs.h",
    "cudaVDPAUTypedefs.h",
]
TYPEDEF = re.compile(r"PFN_(cu\w+?)_v(\d+)(_pt[sd][zs])?\)")
PER_THREAD = re.compile(r"_pt[sd][zs]$")
VERSIONED = re.compile(r"_v\d+$")
UNKNOWN_VERSION = 2000  # a symbol without a typedef: old enough for every caller
HEAD = """\
# When each symbol came: for cuGetProcAddress, which answers with the newest variant that is not
# newer than what was asked. Made by api/codegen/symbol_versions.py from a toolkit.
# base name = [[first CUDA version, symbol], …]; the per-thread-default-stream variants stand in
# their own table.
"""


def header_versions(include):
    """{(base, suffix): {version…}}"""
    versions = {}
    for header in HEADERS:
        path = Path(include) / header
        for base, version, suffix in TYPEDEF.findall(path.read_text() if path.exists() else ""):
            versions.setdefault((base, suffix), set()).add(int(version))
    return versions


def exported(stub):
    """The function names that the library defines."""
    text = subprocess.run(
        ["nm", "-D", "--defined-only", stub], check=True, capture_output=True, text=True
    ).stdout
    rows = [line.split() for line in text.splitlines()]
    return {row[2] for row in rows if row[1] in "TW"}


def tables(include, stub):
    """(plain, per thread): {base: [[version, symbol]…]}"""
    exports, plain, per_thread, placed = exported(stub), {}, {}, set()
    for (base, suffix), versions in sorted(header_versions(include).items()):
        names = [base + number + suffix for number in ["", *(f"_v{i}" for i in range(2, 10))]]
        names = [name for name in names if name in exports]
        count = min(len(names), len(versions))
        if count == 0:
            continue
        rows = list(zip(sorted(versions)[-count:], names[-count:]))
        (per_thread if suffix else plain).setdefault(base, []).extend(map(list, rows))
        placed |= set(names[-count:])
    for name in sorted(exports - placed):
        base = VERSIONED.sub("", PER_THREAD.sub("", name))
        table = per_thread if PER_THREAD.search(name) else plain
        table.setdefault(base, []).append([UNKNOWN_VERSION, name])
    for table in (plain, per_thread):
        for rows in table.values():
            rows.sort()
    return plain, per_thread


def render(plain, per_thread):
    lines = [HEAD]
    for title, table in (("plain", plain), ("per_thread", per_thread)):
        lines.append(f"[{title}]")
        for base in sorted(table):
            rows = ", ".join(f'[{version}, "{symbol}"]' for version, symbol in table[base])
            lines.append(f"{base} = [{rows}]")
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def differences(spec, plain, per_thread):
    """What the toolkit knows and the file says otherwise. The file may know newer symbols."""
    for title, table in (("plain", plain), ("per_thread", per_thread)):
        for base, rows in sorted(table.items()):
            ours = [tuple(row) for row in spec[title].get(base, [])]
            for row in map(tuple, rows):
                if row not in ours:
                    yield f"{title} {base}: the toolkit has {row}, the spec {ours}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--include", required=True)
    parser.add_argument("--stub", required=True)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--check", type=Path)
    options = parser.parse_args()
    found = tables(options.include, options.stub)
    if options.out:
        options.out.write_text(render(*found))
    if options.check:
        faults = list(differences(tomllib.loads(options.check.read_text()), *found))
        print("\n".join(faults) or "symbols.toml agrees with the toolkit")
        return 1 if faults else 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
