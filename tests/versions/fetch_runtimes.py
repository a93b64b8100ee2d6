#!/usr/bin/env python3
# Takes CUDA runtimes of several versions from NVIDIA's Python wheels into the build folder.
# SPDX-License-Identifier: Apache-2.0
"""Usage: fetch_runtimes.py INTO [--refresh]

For each version: INTO/<version>/libcudart.so.N and INTO/<version>/version.txt. What is there
already is kept; --refresh takes everything again ("newest" may have moved). Exit code 77 when a
version is missing and cannot be had: the tests of that version then report themselves as skipped.
"""
import argparse
import pathlib
import shutil
import subprocess
import sys
import tempfile
import zipfile

RUNTIMES = {
    "11.8": "nvidia-cuda-runtime-cu11==11.8.*",
    "12.9": "nvidia-cuda-runtime-cu12==12.9.*",
    "13.0": "nvidia-cuda-runtime==13.0.*",
    "newest": "nvidia-cuda-runtime",
}
DOWNLOAD_SECONDS_MAX = 120
EXIT_SKIPPED = 77


def say(text):
    print(f"runtimes: {text}", flush=True)


def has(folder):
    return (folder / "version.txt").exists() and any(folder.glob("libcudart.so.*"))


def download(requirement, folder):
    """The wheel's path, or None with the reason printed."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check",
               "--no-deps", "--only-binary", ":all:", "--retries", "1", "--timeout", "15",
               "--dest", str(folder), requirement]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=DOWNLOAD_SECONDS_MAX, check=False)
    except subprocess.TimeoutExpired:
        say(f"{requirement}: no answer within {DOWNLOAD_SECONDS_MAX} s")
        return None
    wheels = list(folder.glob("*.whl"))
    if done.returncode != 0 or not wheels:
        lines = (done.stderr or done.stdout).strip().splitlines()
        say(f"{requirement}: pip could not have it ({lines[-1] if lines else 'no reason given'}). "
            "Is there a network?")
        return None
    return wheels[0]


def unpack(wheel, folder):
    """The runtime library and the wheel's version into `folder`, which appears only when whole."""
    stage = folder.with_name(folder.name + ".part")
    shutil.rmtree(stage, ignore_errors=True)
    stage.mkdir(parents=True)
    with zipfile.ZipFile(wheel) as archive:
        names = [n for n in archive.namelist() if "/libcudart.so." in n]
        if len(names) != 1:
            say(f"{wheel.name}: holds {len(names)} files libcudart.so.*, one was expected")
            return False
        (stage / pathlib.PurePosixPath(names[0]).name).write_bytes(archive.read(names[0]))
    (stage / "version.txt").write_text(wheel.name.split("-")[1] + "\n")
    shutil.rmtree(folder, ignore_errors=True)
    stage.rename(folder)
    return True


def fetch(version, requirement, folder):
    if has(folder):
        say(f"{version}: there already ({(folder / 'version.txt').read_text().strip()})")
        return True
    say(f"{version}: taking {requirement} (1 to 4 MB) ...")
    with tempfile.TemporaryDirectory(prefix="vgpu-runtimes-") as stage:
        wheel = download(requirement, pathlib.Path(stage))
        return wheel is not None and unpack(wheel, folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("into", type=pathlib.Path)
    parser.add_argument("--refresh", action="store_true")
    arguments = parser.parse_args()
    arguments.into.mkdir(parents=True, exist_ok=True)
    missing = []
    for version, requirement in RUNTIMES.items():
        folder = arguments.into / version
        if arguments.refresh:
            shutil.rmtree(folder, ignore_errors=True)
        if not fetch(version, requirement, folder):
            missing.append(version)
    if missing:
        print(f"skipped: no CUDA runtime of {', '.join(missing)} could be had (see above)")
        sys.exit(EXIT_SKIPPED)
    say("all there")


if __name__ == "__main__":
    main()
