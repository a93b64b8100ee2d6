#!/usr/bin/env python3
# Dependencies point one way: every #include, and every target that a folder links, is checked
# against docs/architecture.md.
# SPDX-License-Identifier: Apache-2.0
import pathlib
import re
import sys

# What each folder may include and link. Everybody may use itself.
ALLOWED = {
    "base": set(),
    "api": {"base"},
    "protocol": {"base", "api"},
    "scheduler": {"base"},
    "softgpu": {"base", "api"},
    "shim": {"base", "api", "protocol"},
    "router": {"base", "api"},
    "nvml": {"base", "api", "protocol"},
    "server": {"base", "api", "protocol", "scheduler"},
    "net": {"base", "protocol"},
    "vm": {"base", "protocol"},
    "tools": {"base", "api", "protocol", "scheduler", "net"},
}
# Libraries that must not reach a folder, by the names that their headers begin with.
BARRED = {
    "base": ("llvm", "spdlog", "zmq", "rdma", "CLI", "toml++", "nlohmann", "flatbuffers"),
    "api": ("llvm", "spdlog", "zmq", "rdma", "CLI", "toml++", "nlohmann"),
    "protocol": ("llvm", "spdlog", "zmq", "rdma", "CLI", "toml++", "nlohmann"),
    "scheduler": ("llvm", "spdlog", "zmq", "rdma", "CLI", "cuda", "flatbuffers", "sys/"),
    "shim": ("llvm", "spdlog", "zmq", "rdma", "CLI", "toml++", "nlohmann"),
    "router": ("llvm", "spdlog", "zmq", "rdma", "CLI", "toml++", "nlohmann", "flatbuffers"),
    "nvml": ("llvm", "spdlog", "zmq", "rdma", "CLI", "toml++", "nlohmann", "cuda"),
    "softgpu": ("spdlog", "zmq", "rdma", "CLI", "toml++", "nlohmann", "flatbuffers"),
    "server": ("llvm", "zmq", "rdma"),
    "vm": ("llvm", "spdlog", "zmq", "rdma", "CLI", "cuda", "toml++", "nlohmann"),
    "net": ("llvm", "spdlog", "CLI", "toml++", "nlohmann", "cuda"),
    "tools": ("zmq", "rdma"),
}
# How the same libraries are called in link lines, where that is not as their headers are.
LINK_NAMES = {"llvm": "VGPU_LLVM", "zmq": "VGPU_ZMQ", "CLI": "CLI11", "toml++": "tomlplusplus"}
# The one library that puts two sides into one process, for tests: its files and its target.
JOINS = {"server/loop": {"shim"}, "vgpu_loop": {"shim"}}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
TARGET = re.compile(r"\badd_(?:library|executable)\s*\(\s*([\w-]+)")
LINK = re.compile(r"\btarget_link_libraries\s*\(\s*([\w-]+)([^)]*)\)")


def folder_of(path, root):
    return path.relative_to(root).parts[0]


def joined(name):
    return {folder for start, more in JOINS.items() if name.startswith(start) for folder in more}


def faults_in(path, root):
    name = path.relative_to(root).as_posix()
    folder = folder_of(path, root)
    allowed = ALLOWED[folder] | {folder} | joined(name)
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


def build_text(path):
    return re.sub(r"#.*", "", path.read_text())


def link_faults(build_files, root):
    """Faults of the link lines, by the folder in which each target is made."""
    homes = {name: folder_of(path, root)
             for path in build_files for name in TARGET.findall(build_text(path))}
    for path in build_files:
        where, folder = path.relative_to(root).as_posix(), folder_of(path, root)
        barred = tuple(LINK_NAMES.get(name, name) for name in BARRED.get(folder, ()))
        for target, words in LINK.findall(build_text(path)):
            for word in re.findall(r"[\w:+-]+", words):
                home = homes.get(word, folder)
                if home not in ALLOWED[folder] | {folder} | joined(target):
                    yield f"{where}: {target} of {folder} must not link {word} of {home}"
                if word.startswith(barred):
                    yield f"{where}: {target} of {folder} must not link {word}"


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
    faults, build_files = [], []
    files = 0
    for folder in ALLOWED:
        paths = [path for path in sorted((root / folder).rglob("*")) if path.is_file()]
        sources = [path for path in paths if path.suffix in {".h", ".cc", ".c", ".inc", ".def"}]
        builds = [path for path in paths if path.name == "CMakeLists.txt"]
        if not sources or not builds:
            faults.append(f"{folder}: no sources or no CMakeLists.txt; is it still a folder?")
        for path in sources:
            faults += faults_in(path, root)
        files += len(sources)
        build_files += builds
    faults += link_faults(build_files, root)
    for fault in faults:
        print(fault)
    print(f"layering: {files} files, {len(build_files)} build files, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
