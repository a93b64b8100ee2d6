# Reads api/spec into plain objects and refuses what the format does not allow (docs/spec.md).
# SPDX-License-Identifier: Apache-2.0
import re
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

WIRE_BYTES = {"u8": 1, "u16": 2, "u32": 4, "u64": 8, "i32": 4, "f32": 4}
FUNCTION_KEYS = {
    "id", "c", "shim", "softgpu", "why", "also", "per_thread", "reply", "cost", "arg", "router",
}
COMMAND_KEYS = {"id", "fields", "result", "reply", "cost", "blob"}
FAMILY_KEYS = {"family", "later", "refused", "router"}
SHIM_KINDS = {"generated", "custom", "local", "later"}
ROUTER_RULES = {"", "custom", "refused", "first", "shared", "current", "address"}
COSTS = {"free", "copy", "launch", "sync"}


class SpecError(Exception):
    """The specification says something that the format does not allow."""


@dataclass
class Field:
    name: str
    wire: str
    count: int = 1

    @property
    def bytes(self):
        return WIRE_BYTES[self.wire] * self.count


@dataclass
class Arg:
    name: str
    type: str  # the C type without the name
    out: bool = False
    bytes_of: str = ""  # size expression of a pointer to data


@dataclass
class Function:
    """One driver function: all its symbols share one signature and one implementation."""

    name: str
    family: str
    c: str
    shim: str = "generated"
    softgpu: bool = True
    why: str = ""
    also: list = field(default_factory=list)
    per_thread: str = ""
    reply: str = "wait"
    cost: str = "free"
    id: int = 0
    args: list = field(default_factory=list)
    router: str = ""  # where the router sends it; empty: its arguments say

    def symbols(self):
        return [self.name, *self.also]


@dataclass
class Command:
    """One record of the channel's own, or the record of a generated function."""

    name: str
    id: int
    fields: list
    result: list
    reply: str
    cost: str
    blob: str = ""
    function: Function = None


@dataclass
class Spec:
    functions: list
    commands: list
    later: dict  # symbol -> family
    refused: dict  # symbol -> (family, why)
    symbols: dict  # base -> [(version, symbol)]
    per_thread: dict
    scalar: dict
    handle: dict


def parse_fields(text, where):
    """'u64 a; u32[3] b' → [Field…]."""
    fields = []
    for part in filter(None, (p.strip() for p in text.split(";"))):
        match = re.fullmatch(r"(\w+)(?:\[(\d+)\])? (\w+)", part)
        if not match or match.group(1) not in WIRE_BYTES:
            raise SpecError(f"{where}: '{part}' is no field; known types: {', '.join(WIRE_BYTES)}")
        fields.append(Field(match.group(3), match.group(1), int(match.group(2) or 1)))
    return fields


def parse_args(c):
    """'CUstream hStream, size_t *out' → [Arg…]."""
    args = []
    for part in filter(None, (p.strip() for p in c.split(","))):
        if part == "void":
            continue
        match = re.fullmatch(r"(.*?[\s*])(\w+)(\[\])?", part)
        if not match:
            raise SpecError(f"'{part}' is no parameter")
        kind = " ".join(match.group(1).replace("*", " * ").split()) + (
            " *" if match.group(3) else ""
        )
        args.append(Arg(match.group(2), kind))
    return args


def check_keys(entry, allowed, where):
    unknown = set(entry) - allowed
    if unknown:
        raise SpecError(f"{where}: unknown key {', '.join(sorted(unknown))}")


def annotate(function, annotations):
    names = [a.name for a in function.args]
    for name, text in annotations.items():
        where = f"{function.name}.{name}"
        if name not in names:
            raise SpecError(f"{where}: annotation of an argument that does not exist")
        match = re.fullmatch(r"in bytes\[(\w+)\]", text)
        if not match:
            raise SpecError(
                f"{where}: '{text}' is no annotation; known: in bytes[EARLIER_OR_LATER_ARGUMENT]"
            )
        if match.group(1) not in names:
            raise SpecError(f"{where}: size expression names no argument: {match.group(1)}")
        function.args[names.index(name)].bytes_of = match.group(1)


def check_generated(function, scalar, handle):
    for arg in function.args:
        where = f"{function.name}.{arg.name}"
        base = arg.type.replace("const ", "").replace(" *", "").strip()
        pointer = arg.type.endswith("*")
        if pointer and base == "void" and not arg.bytes_of:
            raise SpecError(f"{where}: pointer to void without a length")
        if arg.bytes_of:
            continue
        if pointer:
            arg.out = True
            if arg.type.startswith("const ") or base in handle:
                raise SpecError(
                    f"{where}: only plain outputs can be generated; make the function custom"
                )
        if base not in scalar and not (base in handle and not pointer):
            raise SpecError(f"{where}: type '{base}' is unknown to types.toml")
    if function.reply == "none" and any(a.out for a in function.args):
        raise SpecError(f'{function.name}: reply = "none" with an argument that comes back')


def check_router(function):
    rule, _, what = function.router.partition(" ")
    if rule not in ROUTER_RULES or (rule == "address") != bool(what):
        raise SpecError(f'{function.name}: router = "{function.router}"')
    if what and what not in [a.name for a in function.args]:
        raise SpecError(f"{function.name}: router names no argument: {what}")


def parse_function(name, entry, family, spec, default_router=""):
    check_keys(entry, FUNCTION_KEYS, name)
    if "c" not in entry:
        raise SpecError(f"{name}: no C signature")
    shim = entry.get("shim", "generated")
    if shim not in SHIM_KINDS:
        raise SpecError(f"{name}: shim = \"{shim}\"; known: {', '.join(sorted(SHIM_KINDS))}")
    if shim != "generated" and not entry.get("why"):
        raise SpecError(f'{name}: shim = "{shim}" needs a why')
    if shim == "generated" and "id" not in entry:
        raise SpecError(f"{name}: a generated function needs an id")
    function = Function(
        name,
        family,
        entry["c"],
        shim,
        entry.get("softgpu", True),
        entry.get("why", ""),
        entry.get("also", []),
        entry.get("per_thread", ""),
        entry.get("reply", "wait"),
        entry.get("cost", "free"),
        entry.get("id", 0),
        parse_args(entry["c"]),
    )
    function.router = entry.get("router", default_router)
    check_router(function)
    annotate(function, entry.get("arg", {}))
    if shim == "generated":
        check_generated(function, spec.scalar, spec.handle)
    return function


def command_of(function, spec):
    """The record of a generated function: its arguments that go in, the outputs that come back."""
    fields, result, blob = [], [], ""
    for arg in function.args:
        if arg.bytes_of:
            blob = arg.name
        elif arg.out:
            result.append(Field(arg.name, spec.scalar[arg.type.replace(" *", "")]))
        elif arg.type in spec.handle:
            fields.append(Field(arg.name, "u64"))
        else:
            fields.append(Field(arg.name, spec.scalar[arg.type]))
    return Command(
        function.name, function.id, fields, result, function.reply, function.cost, blob, function
    )


def parse_command(name, entry):
    check_keys(entry, COMMAND_KEYS, name)
    reply = entry.get("reply", "wait")
    if reply == "none" and "result" in entry:
        raise SpecError(f'{name}: reply = "none" with a result')
    return Command(
        name,
        entry["id"],
        parse_fields(entry.get("fields", ""), name),
        parse_fields(entry.get("result", ""), name),
        reply,
        entry.get("cost", "free"),
        entry.get("blob", ""),
    )


def check_cost(command):
    word, _, what = command.cost.partition(" ")
    if word not in COSTS or (word == "copy") != bool(what):
        raise SpecError(f'{command.name}: cost = "{command.cost}"')
    if what and command.function is None and what not in [f.name for f in command.fields]:
        raise SpecError(f"{command.name}: cost names no field: {what}")


def load_family(path, spec):
    data = tomllib.loads(path.read_text())
    family = data.get("family")
    if family != path.stem:
        raise SpecError(f'{path.name}: family "{family}" differs from the file\'s name')
    for symbol in data.get("later", []):
        spec.later[symbol] = family
    for group in data.get("refused", []):
        if not group.get("why"):
            raise SpecError(f"{path.name}: refused without a why")
        for symbol in group["functions"]:
            spec.refused[symbol] = (family, group["why"])
    for name, entry in data.items():
        if name in FAMILY_KEYS:
            continue
        if not isinstance(entry, dict):
            raise SpecError(f"{path.name}: unknown key {name}")
        if "fields" in entry or family == "channel":
            spec.commands.append(parse_command(name, entry))
        else:
            function = parse_function(name, entry, family, spec, data.get("router", ""))
            spec.functions.append(function)
            if function.shim == "generated":
                spec.commands.append(command_of(function, spec))


def check_numbers(spec, lock):
    """Numbers are given once: none twice, none changed from the lock."""
    seen = {}
    for command in spec.commands:
        if command.id in seen:
            raise SpecError(
                f"{command.name}: number 0x{command.id:04x} is {seen[command.id]}'s already"
            )
        seen[command.id] = command.name
        if lock.get(command.name, command.id) != command.id:
            raise SpecError(
                f"{command.name}: number changed from the lock (0x{lock[command.name]:04x})"
            )
    for name, number in lock.items():
        if number in seen and seen[number] != name:
            raise SpecError(
                f"{seen[number]}: number 0x{number:04x} belonged to {name}; "
                "numbers are never reused"
            )


def check_symbols(spec):
    """Every symbol of symbols.toml has one home, and nothing else is claimed."""
    tables = (spec.symbols, spec.per_thread)
    symbols = {s for table in tables for rows in table.values() for _, s in rows}
    claims = [(s, f.name) for f in spec.functions for s in [*f.symbols(), f.per_thread] if s]
    claims += [(s, f"later in {family}") for s, family in spec.later.items()]
    claims += [(s, f"refused in {family}") for s, (family, _) in spec.refused.items()]
    homes = {}
    for symbol, home in claims:
        if symbol in homes:
            raise SpecError(f"{symbol}: claimed twice: {homes[symbol]}, {home}")
        if symbol not in symbols:
            raise SpecError(f"{symbol}: unknown to symbols.toml ({home})")
        homes[symbol] = home
    for symbol in sorted(symbols):
        if symbol not in homes and re.sub(r"_pt[sd][zs]$", "", symbol) not in homes:
            raise SpecError(f"{symbol}: in symbols.toml, but no family says what becomes of it")


def read_lock(path):
    lock = {}
    if path.exists():
        for line in path.read_text().splitlines():
            if line and not line.startswith("#"):
                number, name = line.split()
                lock[name] = int(number, 16)
    return lock


def load(folder):
    """Everything under api/spec, checked. Raises SpecError."""
    folder = Path(folder)
    types = tomllib.loads((folder / "types.toml").read_text())
    symbols = tomllib.loads((folder / "symbols.toml").read_text())
    spec = Spec(
        [], [], {}, {}, symbols["plain"], symbols["per_thread"], types["scalar"], types["handle"]
    )
    for path in sorted(folder.glob("*.toml")):
        if path.name not in ("types.toml", "symbols.toml"):
            load_family(path, spec)
    spec.commands.sort(key=lambda c: c.id)
    spec.functions.sort(key=lambda f: f.name)
    check_numbers(spec, read_lock(folder / "opcodes.lock"))
    for command in spec.commands:
        check_cost(command)
    check_symbols(spec)
    return spec
