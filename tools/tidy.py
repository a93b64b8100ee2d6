#!/usr/bin/env python3
# The repository's habits as a program: sizes, headers, words that have no place.
# SPDX-License-Identifier: Apache-2.0
"""Usage: tidy.py [ROOT]. Prints one line per fault, exits 1 when there is one."""
import pathlib
import re
import subprocess
import sys

LINE_MAX = 100
FUNCTION_MAX = 70
FILE_SOFT_MAX = 400
FILE_HARD_MAX = 600
# Files above the hard limit, each with its reason. Keep this list short.
LONG_FILES = {}
# Functions above the limit, "file: signature's start", each with its reason.
LONG_FUNCTIONS = {}
CODE = {".h", ".cc", ".cu", ".cuh", ".inc", ".def"}
SCRIPTS = {".py", ".sh", ".cmake"}
# (pattern, why, where it is allowed as path prefixes). Comments and strings are blanked before.
THREAD_PLACES = ("server/", "softgpu/exec/", "softgpu/api/", "softgpu/jit/", "shim/", "tests/",
                 "tools/", "protocol/transport/", "net/")
FORBIDDEN = [
    (r"\bsleep_for\b|\bsleep_until\b|\busleep\s*\(|(?<!_)\bsleep\s*\(",
     "wait for a condition instead", ()),
    (r"(?<![\w:.])s?rand\s*\(", "use a seeded generator", ()),
    (r"\bstd::thread\b|\bstd::jthread\b", "threads are made in named places", THREAD_PLACES),
    (r"\bstrcpy\s*\(|\bstrcat\s*\(|\bsprintf\s*\(|\bgets\s*\(", "unbounded", ()),
    (r"\busing namespace\b", "names say where they come from", ()),
    (r"\bdynamic_cast\b|\btypeid\b", "no RTTI", ("tests/",)),
    (r"\breinterpret_pointer_cast\b", "no shared ownership on casts", ()),
    (r"\bstd::cout\b|\bstd::cerr\b", "use the logger or printf", ("tools/", "tests/")),
]
MARKERS = re.compile(r"\b(TO" r"DO|FIX" r"ME|HA" r"CK|XX" r"X)\b")
MACHINE = re.compile(r"(?<![\w.$}])/(?:home|root|work)/\w")
FUNCTION_END = re.compile(r"\)\s*(const|noexcept|override|final|mutable|->.*|:.*)*\s*$")
NO_FUNCTION = re.compile(
    r"\s*(if|for|while|switch|else|do|namespace|class|struct|enum|extern)\b")


def blanked(text):
    """The text with comments and literals replaced by spaces, lines kept."""
    token = re.compile(
        r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<!\w)\'(?:\\.|[^\'\\\n])+\'',
        re.S)
    return token.sub(lambda m: re.sub(r"[^\n]", " ", m.group(0)), text)


def long_functions(text):
    """(line, length, head) of every block at function level that is too long."""
    stack = []
    lines = text.split("\n")
    for number, line in enumerate(lines, 1):
        for char in line:
            if char == "{":
                stack.append((number, head_of(lines, number)))
            elif char == "}" and stack:
                start, head = stack.pop()
                closed = FUNCTION_END.search(head.rstrip("{").rstrip())
                is_function = closed and not NO_FUNCTION.match(head)
                inside = any(is_code(outer) for _, outer in stack)
                if is_function and not inside and number - start + 1 > FUNCTION_MAX:
                    yield start, number - start + 1, head.strip()


def is_code(head):
    return not re.match(r"\s*(inline\s+)?(namespace|class|struct|enum|union|extern|template)\b",
                        head) and bool(head.strip().rstrip("{").strip())


def head_of(lines, number):
    """The statement that a '{' on this line belongs to, up to eight lines back."""
    parts = [lines[number - 1].split("{")[0]]
    back = number - 2
    while back >= 0 and number - back < 9:
        line = lines[back].strip()
        if not line or line.endswith((";", "{", "}", ":")) or line.startswith("#"):
            break
        parts.insert(0, line)
        back -= 1
    return " ".join(parts)


def check_text(name, text):
    """Faults of one file, as (line, message)."""
    suffix = pathlib.PurePosixPath(name).suffix
    lines = text.split("\n")
    if text and not text.endswith("\n"):
        yield len(lines), "no newline at the end"
    for number, line in enumerate(lines, 1):
        if suffix in CODE | {".py", ".sh"} and len(line) > LINE_MAX and "http" not in line:
            yield number, f"line has {len(line)} columns, limit {LINE_MAX}"
        if line != line.rstrip() and suffix in CODE | SCRIPTS:
            yield number, "blanks at the end of the line"
        if MARKERS.search(line):
            yield number, "unfinished work is an issue, not a comment"
        if MACHINE.search(line):
            yield number, "path of one machine"
    if suffix in CODE | {".py", ".sh"}:
        yield from check_header(suffix, lines)
    if suffix in CODE:
        yield from check_code(name, text, len(lines))


def check_header(suffix, lines):
    mark = "//" if suffix in CODE else "#"
    first = [line for line in lines[:3] if not line.startswith("#!")]
    if not first or not first[0].startswith(mark + " "):
        yield 1, "first line must say what the file is for"
    if not any("SPDX-License-Identifier: Apache-2.0" in line for line in lines[:4]):
        yield 1, "no SPDX line"


def check_code(name, text, count):
    if count > FILE_HARD_MAX and name not in LONG_FILES:
        yield count, f"file has {count} lines, hard limit {FILE_HARD_MAX}"
    code = blanked(text)
    for number, line in enumerate(code.split("\n"), 1):
        for pattern, why, places in FORBIDDEN:
            match = re.search(pattern, line)
            if match and not name.startswith(places or ("\0",)):
                yield number, f"'{match.group(0).strip()}': {why}"
    for start, length, head in long_functions(code):
        key = next((k for k in LONG_FUNCTIONS if k.startswith(name + ": ")
                    and head.startswith(k.split(": ", 1)[1])), None)
        if key is None:
            yield start, f"function has {length} lines, limit {FUNCTION_MAX}: {head[:60]}"
    if name.endswith(".h"):
        guard = "VGPU_" + re.sub(r"[^A-Z0-9]", "_", name.upper()) + "_"
        if f"#ifndef {guard}" not in text and "#pragma once" not in text:
            yield 1, f"include guard must be {guard}"


def files_of(root):
    listed = subprocess.run(["git", "-C", str(root), "ls-files", "-co", "--exclude-standard"],
                            capture_output=True, text=True)
    if listed.returncode == 0:
        names = listed.stdout.split("\n")
    else:  # an exported tree
        names = [p.relative_to(root).as_posix() for p in root.rglob("*") if p.is_file()
                 and "build" not in p.relative_to(root).parts]
    return sorted(n for n in names if n and (root / n).is_file())


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
    faults, count, long_ones = 0, 0, []
    for name in files_of(root):
        suffix = pathlib.PurePosixPath(name).suffix
        if suffix not in CODE | SCRIPTS and name not in {"check", "test", "demo", ".ci/run"}:
            continue
        text = (root / name).read_text(errors="replace")
        count += 1
        for line, message in check_text(name, text):
            print(f"{name}:{line}: {message}")
            faults += 1
        lines = text.count("\n")
        if suffix in CODE and lines > FILE_SOFT_MAX:
            long_ones.append(f"{name} ({lines})")
    if long_ones:
        print(f"above the soft limit of {FILE_SOFT_MAX} lines: " + ", ".join(long_ones))
    print(f"tidy: {count} files, {faults} faults")
    return 1 if faults or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
