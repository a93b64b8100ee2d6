#!/usr/bin/env python3
# The rule checkers notice what they are there for, and nothing else.
# SPDX-License-Identifier: Apache-2.0
import pathlib
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests")]
import layering_test  # noqa: E402
import tidy  # noqa: E402

HEAD = "// A file.\n// SPDX-License-Identifier: Apache-2.0\n"


def messages(text, name="server/x.cc"):
    return [message for _, message in tidy.check_text(name, text)]


class Tidy(unittest.TestCase):
    def test_clean(self):
        self.assertEqual(messages(HEAD + "int f() { return 1; }\n"), [])

    def test_header(self):
        self.assertEqual(len(messages("int f();\n")), 2)

    def test_line_length(self):
        self.assertIn("columns", messages(HEAD + "// " + "x" * 100 + "\n")[0])

    def test_markers(self):
        self.assertTrue(messages(HEAD + "// TO" + "DO: later\n"))

    def test_words(self):
        for bad in ("std::this_thread::sleep_for(x);", "int x = rand();", "using namespace std;"):
            self.assertTrue(messages(HEAD + bad + "\n"), bad)
        self.assertEqual(messages(HEAD + "// never sleep_for here\nint grand(int);\n"), [])

    def test_threads_in_named_places_only(self):
        self.assertEqual(messages(HEAD + "std::thread t;\n"), [])
        self.assertTrue(messages(HEAD + "std::thread t;\n", "scheduler/x.cc"))

    def test_function_length(self):
        body = "  x();\n" * 80
        text = HEAD + "void f(int a,\n       int b) {\n" + body + "}\n"
        self.assertIn("function has", messages(text)[0])
        self.assertEqual(messages(HEAD + "namespace a {\n" + "int x();\n" * 80 + "}\n"), [])

    def test_guard(self):
        self.assertTrue(messages(HEAD + "#ifndef X_H_\n#define X_H_\n#endif\n", "base/x.h"))
        self.assertEqual(messages(HEAD + "#ifndef VGPU_BASE_X_H_\n#endif\n", "base/x.h"), [])

    def test_file_length(self):
        self.assertTrue(messages(HEAD + "int x;\n" * 700))


class Layering(unittest.TestCase):
    def faults(self, name, line):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            path = root / name
            path.parent.mkdir(parents=True)
            path.write_text(line + "\n")
            return list(layering_test.faults_in(path, root))

    def test_wrong_direction(self):
        self.assertTrue(self.faults("base/x.h", '#include "shim/process.h"'))
        self.assertTrue(self.faults("scheduler/x.cc", '#include "protocol/limits.h"'))
        self.assertTrue(self.faults("softgpu/exec/x.cc", '#include "protocol/limits.h"'))
        self.assertTrue(self.faults("shim/x.cc", "#include <spdlog/spdlog.h>"))

    def test_right_direction(self):
        self.assertEqual(self.faults("server/x.cc", '#include "scheduler/fifo.h"'), [])
        self.assertEqual(self.faults("shim/x.cc", '#include "protocol/ring/record.h"'), [])


if __name__ == "__main__":
    unittest.main()
