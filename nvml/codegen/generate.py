#!/usr/bin/env python3
# Makes NVML's exported functions from nvml/spec. Usage: generate.py --out FOLDER
# SPDX-License-Identifier: Apache-2.0
"""Writes nvml_functions.h, nvml_entry.inc and nvml_exports.map; the format is in nvml/README.md.

What every function does first is generated: the library is initialised, pointers are there, the
handle is one of ours. What is left is the answer, in nvml/<family>.cc.
"""
import argparse
import re
import sys
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

SPEC = Path(__file__).resolve().parents[1] / "spec"
KEYS = {"c", "also", "nullable", "before_init", "returns", "fresh"}
HEAD = "// Generated from nvml/spec; do not edit.\n"
VISIBLE = 'extern "C" __attribute__((visibility("default")))'


class SpecError(Exception):
    """The specification says something that the format does not allow."""


@dataclass
class Function:
    name: str
    family: str
    c: str
    also: list = field(default_factory=list)
    nullable: list = field(default_factory=list)
    before_init: bool = False
    fresh: bool = False
    returns: str = "nvmlReturn_t"

    def arguments(self):
        """[(type, name)…]"""
        found = []
        for part in filter(None, (p.strip() for p in self.c.split(","))):
            if part == "void":
                continue
            match = re.fullmatch(r"(.*?[\s*])(\w+)", part)
            if not match:
                raise SpecError(f"{self.name}: '{part}' is no parameter")
            found.append((match.group(1).strip(), match.group(2)))
        return found


def load(folder):
    """(functions, {refused name: why}, all names)"""
    names = tomllib.loads((folder / "symbols.toml").read_text())["names"]
    functions, refused, claimed = [], {}, set()

    def claim(name):
        if name not in names:
            raise SpecError(f"{name} is not in symbols.toml")
        if name in claimed:
            raise SpecError(f"{name} is claimed twice")
        claimed.add(name)

    for path in sorted(folder.glob("*.toml")):
        if path.name == "symbols.toml":
            continue
        table = tomllib.loads(path.read_text())
        if table.pop("family", None) != path.stem:
            raise SpecError(f"{path.name}: family differs from the file's name")
        for group in table.pop("refused", []):
            if set(group) != {"why", "names"}:
                raise SpecError(f"{path.name}: a refused group has why and names")
            for name in group["names"]:
                claim(name)
                refused[name] = group["why"]
        for name, entry in table.items():
            if set(entry) - KEYS or "c" not in entry:
                raise SpecError(f"{name}: wrong keys: {', '.join(sorted(entry))}")
            function = Function(name=name, family=path.stem, **entry)
            unknown = set(function.nullable) - {a for _, a in function.arguments()}
            if unknown:
                raise SpecError(f"{name}: no such argument: {', '.join(sorted(unknown))}")
            for symbol in [name, *function.also]:
                claim(symbol)
            functions.append(function)
    return functions, refused, names


def emit_functions(functions):
    """Declarations of the answers."""
    lines = [HEAD + "#pragma once\n\n#include <nvml.h>\n\nnamespace vgpu::nvml {\n",
             "class Call;\n", "// One definition per function, in nvml/<family>.cc.",
             "namespace answer {"]
    for f in functions:
        first = [] if f.before_init else ["const Call &call"]
        arguments = ", ".join(first + [part for part in [f.c] if part != "void"])
        lines.append(f"{f.returns} {f.name}({arguments});  // {f.family}")
    return "\n".join([*lines, "}  // namespace answer", "}  // namespace vgpu::nvml", ""])


def body(f):
    names = [name for _, name in f.arguments()]
    call = f"::vgpu::nvml::answer::{f.name}"
    if f.before_init:
        return f"return {call}({', '.join(names)});"
    lines = ["const ::vgpu::nvml::Call call;",
             "if (call.status() != NVML_SUCCESS) return call.status();"]
    for kind, name in f.arguments():
        if kind == "nvmlDevice_t":
            lines.append(f"if (!call.knows({name})) return NVML_ERROR_INVALID_ARGUMENT;")
        elif kind.endswith("*") and name not in f.nullable:
            lines.append(f"if ({name} == nullptr) return NVML_ERROR_INVALID_ARGUMENT;")
    if f.fresh:
        lines.append("if (!call.alive()) return NVML_ERROR_GPU_IS_LOST;")
    return " ".join(lines) + f" return {call}({', '.join(['call', *names])});"


def emit_entries(functions, refused, names):
    lines = [HEAD]
    served = set()
    for f in functions:
        for symbol in [f.name, *f.also]:
            served.add(symbol)
            lines.append(f"{VISIBLE} {f.returns} {symbol}({f.c}) {{ {body(f)} }}")
    for name in names:
        if name in served:
            continue
        why = f'"{refused[name]}"' if name in refused else "nullptr"
        # The caller clears the arguments, so the signature does not matter.
        lines.append(f'{VISIBLE} nvmlReturn_t VGPU_NOT_SERVED_{name}() __asm__("{name}");')
        lines.append(f"{VISIBLE} nvmlReturn_t VGPU_NOT_SERVED_{name}() "
                     f'{{ return ::vgpu::nvml::not_served("{name}", {why}); }}')
    return "\n".join(lines) + "\n"


def emit_exports(names):
    return ("VGPU {\n  global:\n" + "".join(f"    {name};\n" for name in names)
            + "  local: *;\n};\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--spec", type=Path, default=SPEC)
    options = parser.parse_args()
    try:
        functions, refused, names = load(options.spec)
        outputs = {
            "nvml_functions.h": emit_functions(functions),
            "nvml_entry.inc": emit_entries(functions, refused, names),
            "nvml_exports.map": emit_exports(names),
        }
    except SpecError as error:
        print(f"nvml/spec: {error}", file=sys.stderr)
        return 1
    for name, text in outputs.items():
        path = options.out / name
        if not path.exists() or path.read_text() != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
