#!/usr/bin/env python3
# The names that a libcuda exports are exactly those of the version script.
# SPDX-License-Identifier: Apache-2.0
"""Usage: exports_test.py --nm NM --map exports.map (--stub VENDOR_STUB | --library OURS).

--soname and --least are for other libraries than libcuda.
"""

import argparse
import re
import subprocess
import sys

# What a library of ours may need: the parts of the C library.
NEEDED = re.compile(r"lib(c|m|dl|pthread|rt)\.so\.\d+$|ld-linux[-\w]*\.so\.\d+$")


def exported(nm, library):
    text = subprocess.run(
        [nm, "-D", "--defined-only", library], check=True, capture_output=True, text=True
    ).stdout
    rows = [line.split() for line in text.splitlines()]
    return {row[2].split("@")[0] for row in rows if len(row) == 3 and row[1] != "A"}


def dynamic(library, tag):
    """The values of a tag of the dynamic section."""
    text = subprocess.run(
        ["readelf", "-d", library], check=True, capture_output=True, text=True
    ).stdout
    return re.findall(rf"\({tag}\).*\[(.*)\]", text)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nm", required=True)
    parser.add_argument("--map", required=True)
    parser.add_argument("--stub")
    parser.add_argument("--library")
    parser.add_argument("--soname", default="libcuda.so.1")
    parser.add_argument("--least", type=int, default=600, help="fewer names: the map is broken")
    options = parser.parse_args()
    with open(options.map) as text:
        wanted = set(re.findall(r"^\s+(\w+);$", text.read(), re.M))
    found = exported(options.nm, options.stub or options.library)
    faults = [f"missing: {name}" for name in sorted(wanted - found)]
    faults += [f"not in the spec: {name}" for name in sorted(found - wanted)]
    if options.library:
        if dynamic(options.library, "SONAME") != [options.soname]:
            faults.append(f"its SONAME is not {options.soname}")
        sanitized = any("san.so" in name for name in dynamic(options.library, "NEEDED"))
        faults += [
            f"needs {name}"
            for name in dynamic(options.library, "NEEDED")
            if not NEEDED.match(name) and not sanitized
        ]
    if len(wanted) < options.least:
        faults.append(f"the version script has {len(wanted)} names only")
    print("\n".join(faults) or f"{len(found)} names, as they should be")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
