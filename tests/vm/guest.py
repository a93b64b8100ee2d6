# A virtual machine for tests: Debian's kernel, an initramfs with the guest package, QEMU.
# SPDX-License-Identifier: Apache-2.0
import gzip
import os
import pathlib
import re
import stat
import subprocess
import tarfile
import tempfile

# Their dependencies are the kernels themselves. The smaller one has no RDMA.
KERNEL_PACKAGE = "linux-image-cloud-amd64"
RDMA_KERNEL_PACKAGE = "linux-image-amd64"
FETCH_SECONDS_MAX = 300
BOOT_SECONDS_MAX = 240  # emulated, on a machine that may be busy
MARK = "vgpu-test:"     # in front of what the guest's script says to the test
NETWORK_MODULES = ["virtio_pci", "virtio_net"]
NETWORK_UP = """
modules
ip link set lo up; ip link set eth0 up; ip addr add 10.0.2.15/24 dev eth0
"""
HOST = "10.0.2.2"  # the host's loopback device, as a machine of network_devices() sees it
VFIO_MODULES = ["irqbypass", "vfio_virqfd", "vfio", "vfio_iommu_type1", "vfio-pci-core", "vfio-pci"]
INIT = """#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mkdir -p /run/vgpu /tmp
export PATH=/bin:/usr/bin HOME=/tmp
say() { echo "vgpu-test: $*"; }
until_there() { n=0; while [ ! -e "$1" ] && [ $n -lt 600 ]; do n=$((n+1)); sleep 0.1; done; }
modules() {
  while read -r file; do insmod "/modules/$file" || say "no module $file"; done < /modules/order
}
. /test.sh
poweroff -f
"""


def kernel(cache, meta_package=KERNEL_PACKAGE):
    """Path of a kernel image of Debian's, fetched once into the folder `cache`."""
    images = sorted(cache.glob("root/boot/vmlinuz-*"))
    if images:
        return images[-1]
    cache.mkdir(parents=True, exist_ok=True)
    shown = subprocess.run(["apt-cache", "depends", meta_package], text=True, check=True,
                           capture_output=True, timeout=FETCH_SECONDS_MAX).stdout
    package = re.search(r"Depends: (linux-image-[0-9]\S*)", shown).group(1)
    # apt's own user fetches, and may not write into a folder of ours.
    with tempfile.TemporaryDirectory(prefix="vgpu-kernel-") as folder:
        os.chmod(folder, 0o777)
        subprocess.run(["apt-get", "download", "-q", package], cwd=folder, check=True,
                       timeout=FETCH_SECONDS_MAX, stdout=subprocess.DEVNULL)
        (archive,) = pathlib.Path(folder).glob("*.deb")
        subprocess.run(["dpkg", "-x", archive, cache / "root"], check=True)
    return sorted(cache.glob("root/boot/vmlinuz-*"))[-1]


def modules_of(image, names):
    """(name, content) of kernel modules in the order of `names`, each behind those that it wants;
    what is built in is left out."""
    release = image.name.removeprefix("vmlinuz-")
    folder = image.parents[1] / "lib/modules" / release
    paths = {path.stem.replace("-", "_"): path for path in folder.rglob("*.ko")}
    found = {}

    def add(name):
        path = paths.get(name.replace("-", "_"))
        if path is None or path.name in found:
            return
        content = path.read_bytes()
        for wanted in re.search(rb"\0depends=([^\0]*)\0", content).group(1).decode().split(","):
            add(wanted)
        found[path.name] = content

    for name in names:
        add(name)
    return list(found.items())


def libraries_of(program):
    """Paths of the shared libraries that a program asks for, its interpreter among them."""
    listed = subprocess.run(["ldd", str(program)], text=True, capture_output=True, check=False)
    return [pathlib.Path(path) for path in re.findall(r"(/[^ ]+) \(0x", listed.stdout)]


class Image:
    """An initramfs: a cpio archive in the "newc" format, compressed."""

    def __init__(self):
        self.entries = {}

    def folder(self, path):
        parts = pathlib.PurePosixPath(path.lstrip("/")).parts
        for depth in range(1, len(parts) + 1):
            self.entries.setdefault("/".join(parts[:depth]), (stat.S_IFDIR | 0o755, b""))

    def file(self, path, content, mode=0o755):
        path = path.lstrip("/")
        self.folder(str(pathlib.PurePosixPath(path).parent))
        self.entries[path] = (stat.S_IFREG | mode, content)

    def program(self, source, path):
        """A program and the libraries that it needs, where it looks for them."""
        self.file(path, pathlib.Path(source).read_bytes())
        for library in libraries_of(source):
            self.file(str(library), library.read_bytes())

    def package(self, archive):
        """A package for guests (a .tar.gz)."""
        with tarfile.open(archive) as tar, tempfile.TemporaryDirectory() as folder:
            tar.extractall(folder)
            for path in pathlib.Path(folder).rglob("*"):
                inside = "/" + str(path.relative_to(folder))
                if path.is_file() and os.access(path, os.X_OK):
                    self.program(path, inside)
                elif path.is_file():
                    self.file(inside, path.read_bytes(), 0o644)

    def write(self, path):
        with gzip.open(path, "wb", compresslevel=1) as out:
            for number, (name, (mode, content)) in enumerate(self.entries.items(), 1):
                out.write(newc(name, mode, content, number))
            out.write(newc("TRAILER!!!", 0, b"", 0))


def newc(name, mode, content, number):
    links = 2 if stat.S_ISDIR(mode) else 1
    fields = [number, mode, 0, 0, links, 0, len(content), 0, 0, 0, 0, len(name) + 1, 0]
    head = b"070701" + b"".join(b"%08X" % field for field in fields) + name.encode() + b"\0"
    return padded(head) + padded(content)


def padded(data):
    return data + b"\0" * (-len(data) % 4)


def make_image(path, package, script, programs=(), modules=(), files=()):
    """An initramfs that runs `script` (sh) and powers off. `programs`: (file here, path there);
    `files`: the same of what is no program and only its owner's. `package` may be None."""
    image = Image()
    for folder in ("proc", "sys", "dev", "tmp", "run"):
        image.folder(folder)
    image.file("/bin/busybox", pathlib.Path("/bin/busybox").read_bytes())
    if package is not None:
        image.package(package)
    for source, there in programs:
        image.program(source, there)
    for source, there in files:
        image.file(there, pathlib.Path(source).read_bytes(), 0o600)
    image.folder("modules")
    for name, content in modules:
        image.file(f"/modules/{name}", content)
    image.file("/modules/order", "".join(f"{name}\n" for name, _ in modules).encode(), 0o644)
    image.file("/test.sh", script.encode())
    image.file("/init", INIT.encode())
    image.write(path)


def qemu_command(image, initramfs, devices, append="", machine="q35", *, processors=1, mib=768):
    """QEMU in emulation, asked for by name: where KVM opens but cannot run a kernel, "KVM if there
    is any" would hang."""
    return ["qemu-system-x86_64", "-accel", "tcg,thread=multi", "-cpu", "max", "-M", machine,
            "-m", str(mib), "-smp", str(processors), "-nodefaults", "-no-user-config",
            "-display", "none", "-no-reboot", "-serial", "stdio", "-kernel", str(image),
            "-initrd", str(initramfs),
            "-append", f"console=ttyS0 quiet panic=-1 mitigations=off {append}".strip(), *devices]


def plain_devices(memory, size):
    return ["-object", f"memory-backend-file,id=vgpu,mem-path={memory},size={size},share=on",
            "-device", "ivshmem-plain,memdev=vgpu"]


def doorbell_devices(socket):
    return ["-chardev", f"socket,id=vgpu,path={socket}",
            "-device", "ivshmem-doorbell,vectors=1,chardev=vgpu"]


def network_devices(restricted=False):
    """A network of QEMU's own: the host is at HOST, unless `restricted`."""
    own = ",restrict=on" if restricted else ""
    return ["-netdev", f"user,id=net{own}", "-device", "virtio-net-pci,netdev=net,romfile="]


def said(output):
    """What the guest's script said, line by line."""
    return [line.split(MARK, 1)[1].strip() for line in output.splitlines() if MARK in line]
