#!/usr/bin/env python3
# Takes CUDA runtimes of several versions from NVIDIA's Python wheels into the build folder.
# SPDX-License-Identifier: Apache-2.0
"""Usage: fetch_runtimes.py INTO [--refresh]

For each version: INTO/<version>/libcudart.so.N and INTO/<version>/version.txt. What is there
already is kept; --refresh takes everything again ("newest" may have moved). Exit code 77 when a
version is missing and there is no network: the tests of that version then report themselves as
skipped. Exit code 1 when the network is there and what was asked for is not, or is not as expected.
"""
import argparse
import pathlib
import re
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
# What pip says when nobody answers.
NO_NETWORK = re.compile(r"connection broken by|Max retries exceeded|name resolution|timed out|"
                        r"Connection(Error|Refused|Reset)|Network is unreachable")


class NoNetwork(Exception):
    """Nobody answered: nothing is known about what was asked for."""


class Wrong(Exception):
    """There was an answer, and it is not what was asked for."""


def say(text):
    print(f"runtimes: {text}", flush=True)


def has(folder):
    return (folder / "version.txt").exists() and any(folder.glob("libcudart.so.*"))


def download(requirement, folder):
    """The wheel's path."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check",
               "--no-deps", "--only-binary", ":all:", "--retries", "1", "--timeout", "15",
               "--dest", str(folder), requirement]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=DOWNLOAD_SECONDS_MAX, check=False)
    except subprocess.TimeoutExpired as error:
        raise NoNetwork(f"{requirement}: no answer within {DOWNLOAD_SECONDS_MAX} s") from error
    wheels = list(folder.glob("*.whl"))
    if done.returncode != 0 or not wheels:
        lines = (done.stderr or done.stdout).strip().splitlines()
        kind = NoNetwork if NO_NETWORK.search(done.stderr) else Wrong
        raise kind(f"{requirement}: pip could not have it "
                   f"({lines[-1] if lines else 'no reason given'})")
    return wheels[0]


def unpack(wheel, folder):
    """The runtime library and the wheel's version into `folder`, which appears only when whole."""
    stage = folder.with_name(folder.name + ".part")
    shutil.rmtree(stage, ignore_errors=True)
    stage.mkdir(parents=True)
    with zipfile.ZipFile(wheel) as archive:
        names = [n for n in archive.namelist() if "/libcudart.so." in n]
        if len(names) != 1:
            raise Wrong(f"{wheel.name}: holds {len(names)} files libcudart.so.*, one was expected")
        (stage / pathlib.PurePosixPath(names[0]).name).write_bytes(archive.read(names[0]))
    (stage / "version.txt").write_text(wheel.name.split("-")[1] + "\n")
    shutil.rmtree(folder, ignore_errors=True)
    stage.rename(folder)


def fetch(version, requirement, folder):
    if has(folder):
        say(f"{version}: there already ({(folder / 'version.txt').read_text().strip()})")
        return
    say(f"{version}: taking {requirement} (1 to 4 MB) ...")
    with tempfile.TemporaryDirectory(prefix="vgpu-runtimes-") as stage:
        unpack(download(requirement, pathlib.Path(stage)), folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("into", type=pathlib.Path)
    parser.add_argument("--refresh", action="store_true")
    arguments = parser.parse_args()
    arguments.into.mkdir(parents=True, exist_ok=True)
    missing, wrong = [], []
    for version, requirement in RUNTIMES.items():
        folder = arguments.into / version
        if arguments.refresh:
            shutil.rmtree(folder, ignore_errors=True)
        try:
            fetch(version, requirement, folder)
        except NoNetwork as error:
            say(error)
            missing.append(version)
        except Wrong as error:
            say(error)
            wrong.append(version)
    if wrong:
        sys.exit(f"no CUDA runtime of {', '.join(wrong)} where one should be (see above)")
    if missing:
        print(f"skipped: no CUDA runtime of {', '.join(missing)} could be had (see above)")
        sys.exit(EXIT_SKIPPED)
    say("all there")


if __name__ == "__main__":
    main()
