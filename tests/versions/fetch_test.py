#!/usr/bin/env python3
# fetch_runtimes.py skips only where there is no network; whatever else goes wrong is a failure.
# SPDX-License-Identifier: Apache-2.0
import os
import pathlib
import subprocess
import sys
import tempfile
import zipfile

FETCH = pathlib.Path(__file__).resolve().parent / "fetch_runtimes.py"
NOBODY = "http://127.0.0.1:9/simple"


def code(folder, **pip):
    """The exit code of a fetch into a fresh folder; `pip` are its only settings."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
    for name in ("no_proxy", "NO_PROXY"):
        env[name] = "127.0.0.1"
    env.update(PIP_CONFIG_FILE=os.devnull, **pip)
    with tempfile.TemporaryDirectory(dir=folder) as into:
        return subprocess.run([sys.executable, str(FETCH), into], env=env, check=False).returncode


def make_wheel(folder, name):
    """A wheel without a runtime in it."""
    about = f"{name}-11.8.9.dist-info"
    with zipfile.ZipFile(folder / f"{name}-11.8.9-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"{about}/METADATA",
                       f"Metadata-Version: 2.1\nName: {name}\nVersion: 11.8.9\n")
        wheel.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        wheel.writestr(f"{about}/RECORD", "")


def main():
    with tempfile.TemporaryDirectory(prefix="vgpu-fetch-") as name:
        folder = pathlib.Path(name)
        wheels = folder / "wheels"
        wheels.mkdir()
        local = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(wheels)}
        assert code(folder, PIP_INDEX_URL=NOBODY) == 77, "no network: skipped"
        assert code(folder, **local) == 1, "no such version: a failure"
        make_wheel(wheels, "nvidia_cuda_runtime_cu11")
        assert code(folder, PIP_INDEX_URL=NOBODY, PIP_FIND_LINKS=str(wheels)) == 1, \
            "a wheel of an unexpected layout: a failure"


if __name__ == "__main__":
    main()
