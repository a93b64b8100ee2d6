#!/usr/bin/env python3
# Tests of the generator: what it refuses, what it makes, and that the checked-in files are current.
# SPDX-License-Identifier: Apache-2.0
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import emit_calls  # noqa: E402
import emit_docs  # noqa: E402
import emit_entry  # noqa: E402
import emit_router  # noqa: E402
import emit_wire  # noqa: E402
import model  # noqa: E402

TYPES = (HERE.parent / "spec" / "types.toml").read_text()
SYMBOLS = """[plain]
cuFoo = [[2000, "cuFoo"]]
[per_thread]
cuFoo = [[7000, "cuFoo_ptsz"]]
"""


def load(text, name="stream", lock=""):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        (path / "types.toml").write_text(TYPES)
        (path / "symbols.toml").write_text(SYMBOLS)
        (path / f"{name}.toml").write_text(
            f'family = "{name}"\n' + text if "family" not in text else text
        )
        if lock:
            (path / "opcodes.lock").write_text(lock)
        return model.load(path)


GOOD = '[cuFoo]\nid = 1\nc = "CUstream hStream, unsigned int Flags"\nreply = "none"\n'


class Refusals(unittest.TestCase):
    def refuses(self, text, part, **kw):
        with self.assertRaises(model.SpecError) as caught:
            load(text, **kw)
        self.assertIn(part, str(caught.exception))

    def test_good_entry_is_taken(self):
        self.assertEqual(load(GOOD).functions[0].name, "cuFoo")

    def test_void_pointer_without_length(self):
        self.refuses('[cuFoo]\nid = 1\nc = "const void *data, size_t n"\n', "without a length")

    def test_no_reply_with_an_output(self):
        self.refuses('[cuFoo]\nid = 1\nc = "int *out"\nreply = "none"\n', "comes back")

    def test_router_rule_that_does_not_exist(self):
        self.refuses(GOOD + 'router = "somewhere"\n', 'router = "somewhere"')

    def test_router_address_without_an_argument(self):
        self.refuses(GOOD + 'router = "address"\n', 'router = "address"')
        self.refuses(GOOD + 'router = "address nobody"\n', "names no argument")

    def test_router_goes_by_the_stream(self):
        text = emit_router.emit_dispatch(load(GOOD))
        self.assertIn("::vgpu::router::by_stream(hStream)", text)
        text = emit_router.emit_dispatch(load(GOOD + 'router = "refused"\n'))
        self.assertIn('return not_served("cuFoo");', text)

    def test_annotation_of_unknown_argument(self):
        self.refuses(GOOD + 'arg.nobody = "in bytes[Flags]"\n', "does not exist")

    def test_size_expression_names_no_argument(self):
        self.refuses(
            '[cuFoo]\nid = 1\nc = "const void *data, size_t n"\narg.data = "in bytes[m]"\n',
            "names no argument",
        )

    def test_unknown_key(self):
        self.refuses(GOOD + 'colour = "red"\n', "unknown key")

    def test_number_used_twice(self):
        self.refuses(GOOD + GOOD.replace("cuFoo", "cuBar"), "already")

    def test_number_changed_from_the_lock(self):
        self.refuses(GOOD, "changed from the lock", lock="0x0002 cuFoo\n")

    def test_number_reused(self):
        self.refuses(GOOD, "never reused", lock="0x0001 cuGone\n")

    def test_custom_local_and_later_need_a_why(self):
        for kind in ("custom", "local", "later"):
            self.refuses(f'[cuFoo]\nc = "int a"\nshim = "{kind}"\n', "needs a why")

    def test_refused_needs_a_why(self):
        self.refuses('[[refused]]\nfunctions = ["cuFoo"]\n', "without a why")

    def test_family_differs_from_file(self):
        self.refuses('family = "event"\n' + GOOD, "differs from the file")

    def test_unknown_type(self):
        self.refuses('[cuFoo]\nid = 1\nc = "CUfancy f"\n', "unknown to types.toml")

    def test_unknown_wire_type(self):
        self.refuses('[Bind]\nid = 1\nfields = "u65 a"\n', "is no field", name="channel")

    def test_symbol_claimed_twice(self):
        self.refuses(GOOD + '[[refused]]\nwhy = "no"\nfunctions = ["cuFoo"]\n', "claimed twice")

    def test_symbol_that_nobody_exports(self):
        self.refuses(GOOD + 'also = ["cuFoo_v9"]\n', "unknown to symbols.toml")

    def test_symbol_without_a_home(self):
        self.refuses("", "no family says")

    def test_result_without_reply(self):
        self.refuses(
            '[Bind]\nid = 1\nfields = "u64 a"\nresult = "u64 b"\nreply = "none"\n',
            "with a result",
            name="channel",
        )

    def test_cost_names_no_field(self):
        self.refuses(
            '[Bind]\nid = 1\nfields = "u64 a"\ncost = "copy b"\n', "names no field", name="channel"
        )


class Output(unittest.TestCase):
    def test_layout_is_aligned_and_padded(self):
        rows, size = emit_wire.layout(model.parse_fields("u32 a; u64 b; u16 c", "t"))
        self.assertEqual(
            [(f.name if f else None, o) for f, o, _ in rows],
            [("a", 0), (None, 4), ("b", 8), ("c", 16), (None, 18)],
        )
        self.assertEqual(size, 24)

    def test_hash_follows_the_wire(self):
        a, b = load(GOOD), load(GOOD.replace("unsigned int Flags", "size_t Flags"))
        self.assertNotEqual(emit_wire.wire_hash(a), emit_wire.wire_hash(b))
        self.assertEqual(emit_wire.wire_hash(a), emit_wire.wire_hash(load(GOOD)))

    def test_null_stream_of_a_per_thread_entry_is_the_threads_own(self):
        text = emit_entry.emit_entries(load(GOOD + 'per_thread = "cuFoo_ptsz"\n'), "shim")
        self.assertIn("hStream = ::vgpu::driver::per_thread(hStream)", text)

    def test_both_halves_of_a_generated_function(self):
        spec = load(
            '[cuFoo]\nid = 1\nc = "const void *data, size_t n, int *out"\n'
            'arg.data = "in bytes[n]"\n'
        )
        self.assertIn("call.blob(data, n);", emit_calls.emit_shim(spec))
        server = emit_calls.emit_server(spec)
        self.assertIn("record.blob().size() < a.n", server)
        self.assertIn(
            "session.driver().cuFoo(record.blob().data(), static_cast<size_t>(a.n), &out)", server
        )

    def test_checked_in_files_are_current(self):
        done = subprocess.run(
            [sys.executable, str(HERE / "generate.py"), "--check"], capture_output=True, text=True
        )
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_every_symbol_has_a_home(self):
        spec = model.load(HERE.parent / "spec")
        homes = (
            {s for f in spec.functions for s in [*f.symbols(), f.per_thread]}
            | set(spec.later)
            | set(spec.refused)
        )
        plain = {s for rows in spec.symbols.values() for _, s in rows}
        self.assertEqual(plain - homes, set())
        self.assertEqual(len(emit_entry.all_symbols(spec)), 637)

    def test_nothing_is_served_without_a_conformance_test(self):
        spec = model.load(HERE.parent / "spec")
        tested = emit_docs.tested_names(HERE.parents[1] / "tests/conformance")
        served = {f.name for f in spec.functions if f.shim != "later"}
        self.assertGreater(len(served), 350)
        self.assertEqual(sorted(served - tested), [])

    def test_nothing_is_left_open(self):
        spec = model.load(HERE.parent / "spec")
        self.assertEqual(sorted(spec.later), [])
        self.assertTrue(all(why for _, why in spec.refused.values()))


if __name__ == "__main__":
    unittest.main()
