# Makes both halves of generated functions (shim_generated.inc, server_dispatch.inc) and printers.
# SPDX-License-Identifier: Apache-2.0
from emit_wire import HEAD

PLAIN = HEAD.replace("#pragma once\n", "")


def shim_body(f, command, handle):
    args = f"::vgpu::wire::{f.name}Args"
    lines = [f"CUresult {f.name}({f.c}) {{"]
    outs = [a for a in f.args if a.out]
    if outs:
        lines.append(
            f"  if ({' || '.join(f'{a.name} == nullptr' for a in outs)}) "
            "return CUDA_ERROR_INVALID_VALUE;"
        )
    lines += [
        f"  ::vgpu::shim::Call<{args}> call(::vgpu::Op::k{f.name});",
        "  if (!call) return call.error();",
    ]
    for a in f.args:
        if a.out:
            continue
        if a.bytes_of:
            lines.append(f"  call.blob({a.name}, {a.bytes_of});")
        elif a.type in handle:
            lines.append(
                f"  if (CUresult r = ::vgpu::shim::wire_id({a.name}, &call.args.{a.name}); "
                "r != CUDA_SUCCESS) return r;"
            )
        else:
            lines.append(
                f"  call.args.{a.name} = static_cast<decltype(call.args.{a.name})>({a.name});"
            )
    if f.reply == "none":
        lines.append("  return call.post();")
    elif not outs:
        lines.append("  return call.wait();")
    else:
        lines += [
            f"  ::vgpu::wire::{f.name}Reply reply;",
            "  CUresult result = call.wait(&reply);",
            "  if (result != CUDA_SUCCESS) return result;",
        ]
        lines += [
            f"  *{a.name} = static_cast<{a.type.replace(' *', '')}>(reply.{a.name});" for a in outs
        ]
        lines.append("  return CUDA_SUCCESS;")
    return lines + ["}", ""]


def emit_shim(spec):
    lines = [PLAIN, "namespace vgpu::driver {\n"]
    by_name = {c.name: c for c in spec.commands}
    for f in spec.functions:
        if f.shim == "generated":
            lines += shim_body(f, by_name[f.name], spec.handle)
    return "\n".join(lines + ["}  // namespace vgpu::driver\n"])


def server_case(f, handle):
    lines = [
        f"    case Op::k{f.name}: {{",
        f"      wire::{f.name}Args a;",
        '      if (!record.read(&a)) return session.malformed(record, "size");',
    ]
    values = []
    for arg in f.args:
        base = arg.type.replace(" *", "")
        if arg.bytes_of:
            lines.append(
                f"      if (record.blob().size() < a.{arg.bytes_of}) "
                'return session.malformed(record, "blob");'
            )
            values.append("record.blob().data()")
        elif arg.out:
            lines.append(f"      {base} {arg.name}{{}};")
            values.append(f"&{arg.name}")
        elif arg.type in handle:
            lines += [
                f"      {arg.type} {arg.name}{{}};",
                f"      if (!session.{handle[arg.type]}(a.{arg.name}, &{arg.name})) "
                'return session.malformed(record, "handle");',
            ]
            values.append(arg.name)
        else:
            values.append(f"static_cast<{arg.type}>(a.{arg.name})")
    lines += [
        f"      if (session.driver().{f.name} == nullptr) "
        f'return session.refuse(record, "{f.name}");',
        f"      CUresult result = session.driver().{f.name}({', '.join(values)});",
    ]
    outs = [a for a in f.args if a.out]
    if outs:
        lines.append(f"      wire::{f.name}Reply reply;")
        lines += [
            f"      reply.{a.name} = static_cast<decltype(reply.{a.name})>({a.name});" for a in outs
        ]
        lines.append("      return session.complete(record, result, &reply, sizeof reply);")
    else:
        lines.append("      return session.complete(record, result, nullptr, 0);")
    return lines + ["    }"]


def emit_server(spec):
    """The switch over every command: decode, check, then the driver or the family's handler."""
    lines = [
        PLAIN,
        "// Included inside vgpu::server::dispatch(Session& session, const Record& record).",
    ]
    lines += ["  switch (static_cast<Op>(record.op())) {"]
    for c in spec.commands:
        if c.function:
            lines += server_case(c.function, spec.handle)
        else:
            lines += [
                f"    case Op::k{c.name}: {{",
                f"      wire::{c.name}Args a;",
                '      if (!record.read(&a)) return session.malformed(record, "size");',
                f"      return handle_{c.name}(session, a, record);",
                "    }",
            ]
    lines += ["  }", '  return session.malformed(record, "unknown command");', ""]
    return "\n".join(lines)


def emit_handlers(spec):
    lines = [
        HEAD,
        '#include "wire.h"\n',
        "namespace vgpu::server {\n",
        "class Session;\nclass Record;\n",
        "// One handler per command of the channel, in server/<family>.cc.",
        "// false = the session is over.",
    ]
    lines += [
        f"bool handle_{c.name}(Session&, const wire::{c.name}Args&, const Record&);"
        for c in spec.commands
        if not c.function
    ]
    return "\n".join(lines + ["\n}  // namespace vgpu::server\n"])


def emit_trace(spec):
    """print_args(op, bytes, size, out): 'name field=value …' for tools that show records."""
    lines = [PLAIN, "  switch (static_cast<Op>(op)) {"]
    for c in spec.commands:
        lines += [
            f"    case Op::k{c.name}: {{",
            f"      wire::{c.name}Args a;",
            "      if (bytes.size() < sizeof a) return false;",
            "      std::memcpy(&a, bytes.data(), sizeof a);",
        ]
        for f in c.fields:
            for i in range(f.count):
                index = f"[{i}]" if f.count > 1 else ""
                lines.append(f'      print_field(out, "{f.name}{index}", a.{f.name}{index});')
        lines += ["      return true;", "    }"]
    return "\n".join(lines + ["  }", "  return false;", ""])
