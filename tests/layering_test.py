#!/usr/bin/env python3
# Dependencies point one way: every #include and link line is checked against docs/architecture.md.
# SPDX-License-Identifier: Apache-2.0
import pathlib
import re
import sys

# What each folder may include. Everybody may include itself.
ALLOWED = {
    "base": set(),
    "api": {"base"},
    "protocol": {"base", "api"},
    "scheduler": {"base"},
    "softgpu": {"base", "api"},
    "shim": {"base", "api", "protocol"},
    "net": {"base", "api", "protocol"},
    "server": {"base", "api", "protocol", "scheduler", "net"},
    "tools": {"base", "api", "protocol", "scheduler"},
}
# Libraries that must not reach a folder, by the names that their headers begin with.
BARRED = {
    "base": ("llvm", "spdlog", "zmq", "rdma", "CLI", "toml++", "nlohmann", "flatbuffers"),
    "api": ("llvm", "spdlog", "zmq", "rdma", "CLI", "toml++", "nlohmann"),
    "protocol": ("llvm", "spdlog", "zmq", "rdma", "CLI", "toml++", "nlohmann"),
    "scheduler": ("llvm", "spdlog", "zmq", "rdma", "CLI", "cuda", "flatbuffers", "sys/"),
    "shim": ("llvm", "spdlog", "zmq", "rdma", "CLI", "toml++", "nlohmann"),
    "softgpu": ("spdlog", "zmq", "rdma", "CLI", "toml++", "nlohmann", "flatbuffers"),
    "server": ("llvm",),
}
# The one library that puts two sides into one process, for tests (target vgpu_loop).
JOINS = {"server/loop": {"shim"}}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def folder_of(path, root):
    return path.relative_to(root).parts[0]


def faults_in(path, root):
    name = path.relative_to(root).as_posix()
    folder = folder_of(path, root)
    allowed = ALLOWED[folder] | {folder}
    for prefix, more in JOINS.items():
        if name.startswith(prefix):
            allowed = allowed | more
    for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        target = match.group(2)
        if target.startswith(BARRED.get(folder, ())):
            yield f"{name}:{number}: {folder} must not use {target}"
        first = target.split("/")[0]
        if "/" in target and match.group(1) == '"' and first in ALLOWED and first not in allowed:
            yield f"{name}:{number}: {folder} must not include {target}"


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
    faults = []
    files = 0
    for folder in ALLOWED:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in {".h", ".cc", ".c", ".inc", ".def"} and path.is_file():
                files += 1
                faults += faults_in(path, root)
    for fault in faults:
        print(fault)
    print(f"layering: {files} files, {len(faults)} faults")
    return 1 if faults or files == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
