#!/usr/bin/env python3
# Makes everything that is made from api/spec. Usage: generate.py --out FOLDER | --update | --check
# SPDX-License-Identifier: Apache-2.0
import argparse
import sys
from pathlib import Path

import emit_calls
import emit_docs
import emit_entry
import emit_router
import emit_wire
import model

ROOT = Path(__file__).resolve().parents[2]
SPEC = ROOT / "api" / "spec"


def outputs(spec):
    return {
        "op.h": emit_wire.emit_op(spec),
        "wire.h": emit_wire.emit_wire(spec),
        "commands.fbs": emit_wire.emit_fbs(spec),
        "driver_functions.h": emit_entry.emit_declarations(spec),
        "driver_table.h": emit_entry.emit_table(spec),
        "driver_recorder.h": emit_entry.emit_recorder(spec),
        "shim_entry.inc": emit_entry.emit_entries(spec, "shim"),
        "softgpu_entry.inc": emit_entry.emit_entries(spec, "softgpu"),
        "shim_symbols.inc": emit_entry.emit_symbols(spec, "shim"),
        "softgpu_symbols.inc": emit_entry.emit_symbols(spec, "softgpu"),
        "symbol_names.inc": emit_entry.emit_symbol_names(spec),
        "wire_check.inc": emit_wire.emit_check(spec),
        "op_shapes.inc": emit_wire.emit_shapes(spec),
        "exports.map": emit_entry.emit_exports(spec),
        "signature_check.cc": emit_entry.emit_signature_check(spec),
        "shim_generated.inc": emit_calls.emit_shim(spec),
        "server_dispatch.inc": emit_calls.emit_server(spec),
        "router_dispatch.inc": emit_router.emit_dispatch(spec),
        "server_table.h": emit_router.emit_table(spec),
        "server_handlers.h": emit_calls.emit_handlers(spec),
        "trace_print.inc": emit_calls.emit_trace(spec),
    }


def checked_in(spec):
    lock = SPEC / "opcodes.lock"
    return {
        lock: emit_docs.emit_lock(spec, model.read_lock(lock)),
        ROOT
        / "docs"
        / "coverage.md": emit_docs.emit_coverage(spec, ROOT / "tests" / "conformance"),
    }


def write_if_changed(path, text):
    if not path.exists() or path.read_text() != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def main():
    parser = argparse.ArgumentParser(
        description="Generates wire, entry points, dispatch and tables from api/spec."
    )
    parser.add_argument("--out", type=Path, help="folder for the generated files")
    parser.add_argument(
        "--update", action="store_true", help="rewrite opcodes.lock and docs/coverage.md"
    )
    parser.add_argument(
        "--check", action="store_true", help="fail when one of the two is not current"
    )
    options = parser.parse_args()
    try:
        spec = model.load(SPEC)
    except model.SpecError as error:
        print(f"api/spec: {error}", file=sys.stderr)
        return 1
    if options.out:
        for name, text in outputs(spec).items():
            write_if_changed(options.out / name, text)
        (options.out / "generated.stamp").touch()
    stale = [p for p, text in checked_in(spec).items() if not p.exists() or p.read_text() != text]
    if options.update:
        for path, text in checked_in(spec).items():
            write_if_changed(path, text)
    elif options.check and stale:
        for path in stale:
            print(
                f"{path.relative_to(ROOT)} is not current: run api/codegen/generate.py --update",
                file=sys.stderr,
            )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
