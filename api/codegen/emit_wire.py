# Makes op.h, wire.h (plain structs with checked layout), commands.fbs (the same as a schema) and
# the rows that tests make of them.
# SPDX-License-Identifier: Apache-2.0
import hashlib

from model import WIRE_BYTES

CPP = {
    "u8": "uint8_t",
    "u16": "uint16_t",
    "u32": "uint32_t",
    "u64": "uint64_t",
    "i32": "int32_t",
    "f32": "float",
}
FBS = {"u8": "ubyte", "u16": "ushort", "u32": "uint", "u64": "ulong", "i32": "int", "f32": "float"}
FLATC_KEYWORDS = {"module", "export", "import"}  # flatc puts an underscore behind them
HEAD = "// Generated from api/spec; do not edit.\n#pragma once\n"


def layout(fields):
    """[(field or None for padding, offset, bytes)…] and the size, a multiple of 8."""
    rows, offset = [], 0
    for f in fields:
        align = WIRE_BYTES[f.wire]
        gap = -offset % align
        if gap:
            rows.append((None, offset, gap))
        offset += gap
        rows.append((f, offset, f.bytes))
        offset += f.bytes
    if offset % 8:
        rows.append((None, offset, 8 - offset % 8))
        offset += 8 - offset % 8
    return rows, offset


def wire_hash(spec):
    """64 bits over every name, number, field and reply: equal on both sides or no session."""
    text = "\n".join(
        f"{c.id:04x} {c.name} {c.reply} "
        + ",".join(f"{f.wire}[{f.count}]{f.name}" for f in c.fields)
        + " > "
        + ",".join(f"{f.wire}[{f.count}]{f.name}" for f in c.result)
        for c in spec.commands
    )
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def emit_op(spec):
    lines = [
        HEAD,
        "#include <cstdint>\n\nnamespace vgpu {\n",
        "// What a record asks for. Numbers are given once (api/spec/opcodes.lock).",
        "enum class Op : uint16_t {",
    ]
    lines += [f"  k{c.name} = 0x{c.id:04x}," for c in spec.commands]
    lines += [
        "};\n",
        "enum class CostKind : uint8_t { kFree, kCopy, kLaunch, kSync };\n",
        f"inline constexpr uint64_t kWireHash = 0x{wire_hash(spec)}ull;",
        f"inline constexpr uint32_t kOpCount = {len(spec.commands)};\n",
        "// Name of a command for traces; nullptr when there is none of this number.",
        "inline const char* op_name(uint16_t op) {",
        "  switch (static_cast<Op>(op)) {",
    ]
    lines += [f'    case Op::k{c.name}: return "{c.name}";' for c in spec.commands]
    lines += [
        "  }",
        "  return nullptr;",
        "}\n",
        "inline CostKind op_cost(Op op) {",
        "  switch (op) {",
    ]
    kinds = {"copy": "kCopy", "launch": "kLaunch", "sync": "kSync"}
    for c in spec.commands:
        kind = kinds.get(c.cost.split()[0])
        if kind:
            lines.append(f"    case Op::k{c.name}: return CostKind::{kind};")
    lines += ["    default: return CostKind::kFree;", "  }", "}\n", "}  // namespace vgpu\n"]
    return "\n".join(lines)


def emit_struct(name, fields):
    rows, size = layout(fields)
    out, pads, checks = [f"struct {name} {{"], 0, []
    for f, offset, count in rows:
        if f is None:
            out.append(f"  uint8_t pad{pads}_[{count}] = {{}};")
            pads += 1
        else:
            out.append(f"  {CPP[f.wire]} {f.name}{f'[{f.count}]' if f.count > 1 else ''}{{}};")
            checks.append(f"static_assert(offsetof({name}, {f.name}) == {offset});")
    out.append("};")
    out.append(
        f"static_assert(sizeof({name}) == {max(size, 1)} && std::is_trivially_copyable_v<{name}>);"
    )
    return out + checks + [""]


def emit_wire(spec):
    lines = [
        HEAD,
        "#include <cstddef>\n#include <cstdint>\n#include <type_traits>\n",
        "namespace vgpu::wire {\n",
    ]
    for c in spec.commands:
        if c.blob:
            lines.append(f"// Behind {c.name}: {c.blob}.")
        lines += emit_struct(f"{c.name}Args", c.fields)
        if c.result:
            lines += emit_struct(f"{c.name}Reply", c.result)
    lines.append("}  // namespace vgpu::wire\n")
    return "\n".join(lines)


def emit_fbs(spec):
    """The schema of the data plane; tests/abi holds flatc's layout against wire.h."""
    lines = ["// Generated from api/spec; do not edit.", "namespace vgpu.fbs;\n"]
    for c in spec.commands:
        for suffix, fields in (("Args", c.fields), ("Reply", c.result)):
            if not fields:
                continue
            lines.append(f"struct {c.name}{suffix} (force_align: 8) {{")
            lines += [
                f"  {f.name}:{f'[{FBS[f.wire]}:{f.count}]' if f.count > 1 else FBS[f.wire]};"
                for f in fields
            ]
            lines.append("}\n")
    return "\n".join(lines)


def emit_shapes(spec):
    """Rows for tests/fuzz: every command, so that none is left out."""
    lines = ["// Generated from api/spec; do not edit."]
    return "\n".join(lines + [f"OP_SHAPE({c.name})" for c in spec.commands]) + "\n"


def emit_check(spec):
    """Rows for tests/abi: fields read through flatc's structs are those written through wire.h."""
    lines = ["// Generated from api/spec; do not edit."]
    for c in spec.commands:
        for suffix, fields in (("Args", c.fields), ("Reply", c.result)):
            if not fields:
                continue
            name = f"{c.name}{suffix}"
            lines.append(f"CHECK_STRUCT({name})")
            for f in fields:
                both = f"{name}, {f.name}, {f.name}{'_' if f.name in FLATC_KEYWORDS else ''}"
                if f.count > 1:
                    lines += [f"CHECK_ELEMENT({both}, {i})" for i in range(f.count)]
                else:
                    lines.append(f"CHECK_FIELD({both})")
    return "\n".join(lines) + "\n"
