# Makes docs/coverage.md: every symbol of the vendor's library and its state.
# SPDX-License-Identifier: Apache-2.0
import re
from collections import defaultdict

from emit_entry import all_symbols


def tested_names(tests):
    """Driver functions that a conformance test names."""
    found = set()
    for path in sorted(tests.glob("*_test.cc")) if tests.exists() else []:
        found |= set(re.findall(r"\bcu[A-Z]\w+", path.read_text()))
    return found


def emit_coverage(spec, tests):
    tested = tested_names(tests)
    symbols = all_symbols(spec)
    families = defaultdict(list)
    counts = defaultdict(int)
    for f in spec.functions:
        if f.shim == "later":
            state, note = ("software GPU only", f.why)
        else:
            state, note = ("served", "" if f.name in tested else "no conformance test names it")
        for s in [*f.symbols(), *([f.per_thread] if f.per_thread else [])]:
            families[f.family].append((s, state, f.shim if state == "served" else "", note))
    strip = re.compile(r"_pt[sd][zs]$")
    known = {row[0] for rows in families.values() for row in rows}
    for s in symbols:
        base = strip.sub("", s)
        if s in known:
            continue
        if base in spec.refused:
            family, why = spec.refused[base]
            families[family].append((s, "refused", "", why))
        else:
            families[spec.later[base]].append((s, "not yet", "", ""))
    for rows in families.values():
        for row in rows:
            counts[row[1]] += 1
    out = [
        "# Coverage of the CUDA driver API",
        "",
        "Generated from `api/spec` by the build; do not edit. What is not served returns "
        "`CUDA_ERROR_NOT_SUPPORTED`",
        "(`NOT_FOUND` from `cuGetProcAddress`).",
        "",
        "| state | symbols |",
        "|---|---|",
    ]
    out += [f"| {state} | {n} |" for state, n in sorted(counts.items())] + [
        f"| **all** | **{len(symbols)}** |",
        "",
    ]
    for family in sorted(families):
        out += [f"## {family}", "", "| symbol | state | shim | note |", "|---|---|---|---|"]
        out += [
            f"| `{s}` | {state} | {kind} | {note} |"
            for s, state, kind, note in sorted(families[family])
        ] + [""]
    return "\n".join(out)


def emit_lock(spec, old):
    """The lock with new numbers added; what was given stays for ever."""
    numbers = {**old, **{c.name: c.id for c in spec.commands}}
    lines = [
        "# Numbers of commands: given once, never reused. "
        "Written by api/codegen/generate.py --update."
    ]
    lines += [f"0x{n:04x} {name}" for name, n in sorted(numbers.items(), key=lambda x: x[1])]
    return "\n".join(lines) + "\n"
