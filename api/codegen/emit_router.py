# Makes the router's half: which server's library each call goes to (docs/servers.md).
# SPDX-License-Identifier: Apache-2.0
import emit_entry
from emit_wire import HEAD

# Handles that a server's library mints: they say themselves whose they are.
OWNED = {
    "CUarray", "CUasyncCallbackHandle", "CUcontext", "CUevent", "CUexternalMemory", "CUgraph",
    "CUgraphExec", "CUgraphNode", "CUlinkState", "CUmemGenericAllocationHandle", "CUmemoryPool",
    "CUmipmappedArray", "CUmodule", "CUuserObject",
}
# What the router has in place of one of each server's.
COMPOSITE = {"CUfunction", "CUkernel", "CUlibrary"}


def routed(spec):
    return [f for f in spec.functions if emit_entry.served(f, "shim") and f.router != "shared"]


def first_of(function, types):
    return next((a.name for a in function.args if a.type in types), None)


def finder(function):
    """The expression that finds the server: the stream's, the first handle's, the device's, the
    address's, the current context's."""
    rule, _, what = function.router.partition(" ")
    if rule == "first":
        return "first()"
    if rule == "current":
        return "by_current()"
    if rule == "address":
        return f"by_address(reinterpret_cast<CUdeviceptr>({what}))"
    if function.name.startswith("cuGraphAdd") and function.name.endswith("Node"):
        return "by_graph(hGraph)"
    for types, name in (
        ({"CUstream"}, "by_stream"),
        (OWNED | {"CUfunction"}, "by_handle"),
        ({"CUdevice"}, "by_device"),
        ({"CUdeviceptr"}, "by_address"),
    ):
        found = first_of(function, types)
        if found:
            return f"{name}({found})"
    return "by_current()"


def passed(arg):
    return f"at.local({arg.name})" if arg.type == "CUdevice" else arg.name


def target(function):
    """The pointer that is called: calls without a stream have a per-thread form of their own."""
    plain = f"at->{function.name}"
    if function.per_thread and not first_of(function, {"CUstream"}):
        return f"(per_thread_default ? at->{function.per_thread} : {plain})"
    return plain


def body(function):
    if function.router == "refused":
        return [f'  return not_served("{function.name}");']
    lines = [
        f"  const ::vgpu::router::Place at = ::vgpu::router::{finder(function)};",
        "  if (at.result != CUDA_SUCCESS) [[unlikely]]",
        "    return at.result;",
    ]
    for arg in function.args:
        if arg.type in COMPOSITE:
            lines += [
                f"  if (const CUresult found = at.own(&{arg.name}); found != CUDA_SUCCESS)"
                " [[unlikely]]",
                "    return found;",
            ]
    call = f"{target(function)}({', '.join(map(passed, function.args))})"
    device = first_of(function, {"CUdevice *"})
    if not device:
        return lines + [f"  return {call};"]
    return lines + [f"  return at.as_ours({call}, {device});"]


def emit_dispatch(spec):
    lines = [HEAD.replace("#pragma once\n", "")]
    for f in routed(spec):
        if f.router != "custom":
            unused = "[[maybe_unused]] " if f.router == "refused" else ""
            params = ", ".join(unused + p.strip() for p in f.c.split(",")) if unused else f.c
            lines += [f"CUresult {f.name}({params}) {{", *body(f), "}"]
    return "\n".join(lines) + "\n"


def emit_table(spec):
    """A driver's functions with those per-thread forms that no argument stands for."""
    forms = [
        f.per_thread
        for f in routed(spec)
        if f.per_thread and not first_of(f, {"CUstream"})
    ]
    lines = [
        HEAD,
        '#include "driver_table.h"\n\nnamespace vgpu {\n',
        "// One server's library.",
        "struct ServerTable : DriverTable {",
        *[f"  decltype(&::{name}) {name} = nullptr;" for name in forms],
        "};\n",
        "// As for_each_function.",
        "template <typename Visit>\nvoid for_each_form(ServerTable& table, Visit visit) {",
        "  for_each_function(table, visit);",
        *[f'  visit("{name}", reinterpret_cast<void**>(&table.{name}));' for name in forms],
        "}\n",
        "}  // namespace vgpu\n",
    ]
    return "\n".join(lines)
