#!/usr/bin/env python3
# Runs one Python program of other people's packages on a back end.
# SPDX-License-Identifier: Apache-2.0
"""Usage: run_python.py --build BUILD --packages VENV (direct|shm|cuda) SCRIPT

As tests/apps/run_app.py does it, with settings that make the packages hand PTX to the driver:
CuPy is told so by its own variable; Numba and cuda.core do it where they find no nvJitLink, which
makes machine code. Exit code 77 with the reason when the packages were not fetched.
"""
import argparse
import os
import pathlib
import sys
import tempfile

EXIT_SKIPPED = 77


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--packages", type=pathlib.Path, required=True)
    parser.add_argument("backend", choices=["direct", "shm", "cuda"])
    parser.add_argument("script")
    arguments = parser.parse_args()
    python = arguments.packages / "bin/python"
    if not (arguments.packages / "packages.txt").exists():
        print(f"skipped: no Python packages in {arguments.packages} "
              "(tests/programs/fetch_packages.py takes them, and needs a network)")
        sys.exit(EXIT_SKIPPED)
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "apps"))
    import run_app  # pylint: disable=import-outside-toplevel
    with tempfile.TemporaryDirectory(prefix="vgpu-python-") as folder:
        (pathlib.Path(folder) / "libnvJitLink.so.13").touch()  # found first, and no library
        run_app.toolkit_libraries = lambda build: [folder]
        os.environ.update(CUDA_HOME="/nonexistent", CUDA_PATH="/nonexistent",
                          CUPY_COMPILE_WITH_PTX="1", PYTHONWARNINGS="ignore",
                          CUPY_CACHE_DIR=str(arguments.build.resolve() / "cupy-cache"))
        sys.argv = ["run_app.py", "--build", str(arguments.build), "--seconds", "250",
                    arguments.backend, str(python), arguments.script]
        run_app.main()


if __name__ == "__main__":
    main()
