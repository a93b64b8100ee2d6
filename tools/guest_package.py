#!/usr/bin/env python3
# The package for virtual machines: what a guest needs of a build, as .tar.gz and .deb.
# SPDX-License-Identifier: Apache-2.0
"""Usage: guest_package.py BUILD OUT.tar.gz|OUT.deb"""
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
# In the build, in the tree -> in the guest, mode.
FILES = [
    ("bin/vgpu", "usr/bin/vgpu", 0o755),
    ("bin/vgpu-agent", "usr/bin/vgpu-agent", 0o755),
    ("lib/guest/libcuda.so.1", "usr/lib/vgpu/guest/libcuda.so.1", 0o755),
]
# For servers on a network, where the build has it. It alone wants libfabric and libzmq.
NETWORK_FILES = [("lib/guest/libvgpu-net.so", "usr/lib/vgpu/guest/libvgpu-net.so", 0o755)]
TREE_FILES = [
    ("vm/vgpu-agent.service", "lib/systemd/system/vgpu-agent.service", 0o644),
    ("docs/vm.md", "usr/share/doc/vgpu-guest/vm.md", 0o644),
    ("LICENSE", "usr/share/doc/vgpu-guest/copyright", 0o644),
]
CONTROL = """Package: vgpu-guest
Version: {version}
Architecture: amd64
Maintainer: vGPU
Depends: libc6, libstdc++6, libgcc-s1
Recommends: libfabric1, libzmq5
Section: utils
Priority: optional
Description: vGPU for programs in a virtual machine
 Preloaded into unmodified CUDA programs, its libcuda.so.1 has their calls run on
 the GPU of the host, over the memory of an ivshmem device, or on a server's, over
 a network.
"""


def fill(folder, build):
    """The guest's files under `folder`."""
    sources = [(build / name, there, mode) for name, there, mode in FILES]
    sources += [(build / name, there, mode) for name, there, mode in NETWORK_FILES
                if (build / name).exists()]
    sources += [(ROOT / name, there, mode) for name, there, mode in TREE_FILES]
    for source, there, mode in sources:
        target = folder / there
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
        target.chmod(mode)


def version():
    text = (ROOT / "CMakeLists.txt").read_text()
    return re.search(r"project\(vgpu VERSION (\S+)", text).group(1)


def as_root(member):
    member.uid = member.gid = 0
    member.uname = member.gname = "root"
    return member


def main():
    if len(sys.argv) != 3 or not sys.argv[2].endswith((".tar.gz", ".deb")):
        sys.exit(__doc__)
    build, out = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary) / "root"
        folder.mkdir(mode=0o755)
        fill(folder, build)
        if out.name.endswith(".deb"):
            (folder / "DEBIAN").mkdir(mode=0o755)
            (folder / "DEBIAN/control").write_text(CONTROL.format(version=version()))
            subprocess.run(["dpkg-deb", "--root-owner-group", "-b", folder, out], check=True)
        else:
            with tarfile.open(out, "w:gz", compresslevel=1) as tar:
                for path in sorted(folder.iterdir()):
                    tar.add(path, path.name, filter=as_root)
    print(f"{out.name}: {out.stat().st_size >> 10} KiB")


if __name__ == "__main__":
    main()
