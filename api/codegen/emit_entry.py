# Makes the exported side: entry points, symbols, declarations, driver table, version script.
# SPDX-License-Identifier: Apache-2.0
from emit_wire import HEAD

VISIBLE = 'extern "C" __attribute__((visibility("default")))'


def served(function, side):
    return function.softgpu if side == "softgpu" else function.shim != "later"


def names(function):
    return [a.name for a in function.args]


def call(function, symbol):
    """The call, its failure noted under the name that the program knows."""
    plain = f"::vgpu::driver::{function.name}({', '.join(names(function))})"
    return f'::vgpu::calls::noted({plain}, "{symbol}")'


def per_thread_body(function):
    """The _ptsz/_ptds form: a null stream means the thread's own; so does a call without one."""
    made = call(function, function.per_thread)
    stream = next((a for a in function.args if a.type == "CUstream"), None)
    if stream and function.name != "cuLaunchKernelEx":
        own = f"{stream.name} = ::vgpu::driver::per_thread({stream.name});"
        return f"{{ {own} return {made}; }}"
    return f"{{ ::vgpu::driver::PerThreadScope scope; return {made}; }}"


def emit_entries(spec, side):
    lines = [HEAD.replace("#pragma once\n", "")]
    for f in spec.functions:
        if not served(f, side):
            continue
        for symbol in f.symbols():
            body = f"{{ return {call(f, symbol)}; }}"
            lines.append(f"{VISIBLE} CUresult CUDAAPI {symbol}({f.c}) {body}")
        if f.per_thread:
            lines.append(f"{VISIBLE} CUresult CUDAAPI {f.per_thread}({f.c}) {per_thread_body(f)}")
    have = {s for f in spec.functions if served(f, side) for s in [*f.symbols(), f.per_thread]}
    for symbol in all_symbols(spec):
        if symbol not in have:  # the caller clears the arguments, so the signature does not matter
            lines.append(f'{VISIBLE} CUresult VGPU_NOT_SERVED_{symbol}() __asm__("{symbol}");')
            refusal = f'::vgpu::driver::not_served("{symbol}")'
            lines.append(
                f"{VISIBLE} CUresult VGPU_NOT_SERVED_{symbol}() "
                f'{{ return ::vgpu::calls::noted({refusal}, "{symbol}"); }}'
            )
    return "\n".join(lines) + "\n"


def all_symbols(spec):
    """Every symbol that the vendor's library exports, from the table of versions."""
    return sorted(
        {s for table in (spec.symbols, spec.per_thread) for rows in table.values() for _, s in rows}
    )


def emit_symbols(spec, side):
    """Rows for cuGetProcAddress; a row without an address is known but not served."""
    have = {s for f in spec.functions if served(f, side) for s in [*f.symbols(), f.per_thread]}
    lines = [
        HEAD.replace("#pragma once\n", ""),
        "// base name, introduced, per-thread form, address (nullptr: known, not served)",
    ]
    for flag, table in (("false", spec.symbols), ("true", spec.per_thread)):
        for base in sorted(table):
            for version, symbol in sorted(table[base]):
                address = f"reinterpret_cast<void*>(&::{symbol})" if symbol in have else "nullptr"
                lines.append(f'{{"{base}", {version}, {flag}, {address}}},')
    return "\n".join(lines) + "\n"


def emit_symbol_names(spec):
    """The same rows with the symbol's name in place of its address, for tests and tools."""
    lines = [
        HEAD.replace("#pragma once\n", ""),
        "// base name, introduced, per-thread form, symbol",
    ]
    for flag, table in (("false", spec.symbols), ("true", spec.per_thread)):
        for base in sorted(table):
            lines += [
                f'{{"{base}", {version}, {flag}, "{symbol}"}},'
                for version, symbol in sorted(table[base])
            ]
    return "\n".join(lines) + "\n"


def emit_declarations(spec):
    lines = [
        HEAD,
        "#include <cuda.h>\n#include <cudaProfiler.h>\n\nnamespace vgpu::driver {\n",
        "// One definition per driver function, in shim/<family>.cc or softgpu/api/<family>.cc.",
    ]
    lines += [f"CUresult {f.name}({f.c});  // {f.family}" for f in spec.functions]
    lines += [
        "\n// A function that is exported but not served: CUDA_ERROR_NOT_SUPPORTED,",
        "// and one log line.",
        "CUresult not_served(const char* name);\n",
        "}  // namespace vgpu::driver\n",
    ]
    return "\n".join(lines)


def emit_table(spec):
    lines = [
        HEAD,
        "#include <cuda.h>\n#include <cudaProfiler.h>\n\nnamespace vgpu {\n",
        "// A CUDA driver as a table: NVIDIA's library, the software GPU, or a test's double.",
        "// Missing = nullptr.",
        "struct DriverTable {",
    ]
    lines += [f"  decltype(&::{f.name}) {f.name} = nullptr;" for f in spec.functions]
    lines += [
        "};\n",
        "// Calls visit(name, slot as void**) for every function of the table.",
        "template <typename Visit>\nvoid for_each_function(DriverTable& table, Visit visit) {",
    ]
    lines += [
        f'  visit("{f.name}", reinterpret_cast<void**>(&table.{f.name}));' for f in spec.functions
    ]
    lines += ["}\n", "}  // namespace vgpu\n"]
    return "\n".join(lines)


def emit_recorder(spec):
    """A table whose functions count their calls and return what the test says."""
    lines = [
        HEAD,
        '#include "driver_table.h"\n\n#include <map>\n#include <string>\n\nnamespace vgpu {\n',
        "// Test double: every call is counted under its name and returns `result` (per name, else",
        "// CUDA_SUCCESS).",
        "struct DriverRecorder {",
        "  static DriverRecorder& instance() { static DriverRecorder r; return r; }",
        "  std::map<std::string, int> calls;",
        "  std::map<std::string, CUresult> result;",
        "  CUresult note(const char* name) {",
        "    ++calls[name];",
        "    auto it = result.find(name);",
        "    return it == result.end() ? CUDA_SUCCESS : it->second;",
        "  }",
        "};\n",
        "inline DriverTable recording_table() {",
        "  DriverTable t;",
    ]
    for f in spec.functions:
        kinds = ", ".join(f.c_type for f in map(typed, f.args))
        lines.append(
            f"  t.{f.name} = []({kinds}) -> CUresult "
            f'{{ return DriverRecorder::instance().note("{f.name}"); }};'
        )
    lines += ["  return t;", "}\n", "}  // namespace vgpu\n"]
    return "\n".join(lines)


class typed:
    """A parameter's C type, spelt so that it needs no name."""

    def __init__(self, arg):
        self.c_type = arg.type


def emit_exports(spec):
    return (
        "VGPU {\n  global:\n"
        + "".join(f"    {s};\n" for s in all_symbols(spec))
        + "  local: *;\n};\n"
    )


def emit_signature_check(spec):
    """Compiled by tests/abi: each signature of the spec is the vendor header's."""
    lines = [
        "// Generated from api/spec; do not edit.",
        "#include <cuda.h>\n#include <cudaProfiler.h>\n#include <type_traits>\n",
    ]
    for f in spec.functions:
        for symbol in [*f.symbols(), *([f.per_thread] if f.per_thread else [])]:
            lines.append(
                f'static_assert(std::is_same_v<decltype(::{symbol}), CUresult({f.c})>, "{symbol}");'
            )
    return "\n".join(lines) + "\n"
