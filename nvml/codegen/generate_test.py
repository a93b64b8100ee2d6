#!/usr/bin/env python3
# Tests of NVML's generator: what it refuses, and what every entry does first.
# SPDX-License-Identifier: Apache-2.0
import sys
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import generate  # noqa: E402

GOOD = '[nvmlFoo]\nc = "nvmlDevice_t device, char *name, unsigned int length"\n'


def load(text, names=("nvmlFoo", "nvmlFoo_v1", "nvmlBar")):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        (path / "symbols.toml").write_text(f"names = {list(names)}\n")
        (path / "device.toml").write_text('family = "device"\n' + text)
        return generate.load(path)


class Refusals(unittest.TestCase):
    def refuses(self, text, part):
        with self.assertRaises(generate.SpecError) as caught:
            load(text)
        self.assertIn(part, str(caught.exception))

    def test_unknown_name(self):
        self.refuses('[nvmlBaz]\nc = "void"\n', "not in symbols.toml")

    def test_name_claimed_twice(self):
        self.refuses(GOOD + '[nvmlBar]\nc = "void"\nalso = ["nvmlFoo"]\n', "claimed twice")

    def test_unknown_key(self):
        self.refuses(GOOD + "quick = true\n", "wrong keys")

    def test_nullable_names_no_argument(self):
        self.refuses(GOOD + 'nullable = ["nobody"]\n', "no such argument")

    def test_refused_without_a_reason(self):
        self.refuses('[[refused]]\nnames = ["nvmlFoo"]\n', "why and names")

    def test_no_parameter(self):
        self.refuses('[nvmlFoo]\nc = "unsigned"\n', "no parameter")


class Entries(unittest.TestCase):
    def entry(self, text, symbol="nvmlFoo"):
        lines = generate.emit_entries(*load(text)).splitlines()
        return next(line for line in lines if f" {symbol}(" in line and "{" in line)

    def test_checks_come_first(self):
        line = self.entry(GOOD)
        self.assertIn("call.status() != NVML_SUCCESS", line)
        self.assertIn("!call.knows(device)", line)
        self.assertIn("name == nullptr", line)
        self.assertNotIn("length == nullptr", line)
        self.assertIn("answer::nvmlFoo(call, device, name, length)", line)

    def test_nullable_and_fresh(self):
        line = self.entry(GOOD + 'nullable = ["name"]\nfresh = true\n')
        self.assertNotIn("name == nullptr", line)
        self.assertIn("if (!call.alive()) return NVML_ERROR_GPU_IS_LOST;", line)

    def test_other_names_share_the_answer(self):
        self.assertIn("answer::nvmlFoo(call", self.entry(GOOD + 'also = ["nvmlFoo_v1"]\n',
                                                         "nvmlFoo_v1"))

    def test_every_name_is_exported(self):
        functions, refused, names = load(GOOD + '[[refused]]\nwhy = "none"\nnames = ["nvmlBar"]\n')
        text = generate.emit_entries(functions, refused, names)
        self.assertIn('not_served("nvmlBar", "none")', text)
        self.assertIn('not_served("nvmlFoo_v1", nullptr)', text)
        for name in names:
            self.assertIn(f"    {name};\n", generate.emit_exports(names))

    def test_the_spec_itself_is_good(self):
        functions, refused, names = generate.load(generate.SPEC)
        self.assertGreater(len(functions), 40)
        self.assertGreater(len(names), 400)
        self.assertFalse(set(refused) & {f.name for f in functions})


if __name__ == "__main__":
    unittest.main()
