#!/usr/bin/env python3
# Runs the contract program on one fetched CUDA runtime and one back end.
# SPDX-License-Identifier: Apache-2.0
"""Usage: run_version.py --build BUILD --runtimes FOLDER VERSION (direct|shm|cuda) PROGRAM

The output in a guest must equal the direct run's (see tests/apps/run_app.py). Exit code 77 with the
reason when that runtime was not fetched: skipped, not passed.
"""
import argparse
import pathlib
import sys

EXIT_SKIPPED = 77


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", required=True)
    parser.add_argument("--runtimes", type=pathlib.Path, required=True)
    parser.add_argument("version")
    parser.add_argument("backend", choices=["direct", "shm", "cuda"])
    parser.add_argument("program")
    arguments = parser.parse_args()
    libraries = list((arguments.runtimes / arguments.version).glob("libcudart.so.*"))
    if not libraries:
        print(f"skipped: CUDA runtime {arguments.version} is not in {arguments.runtimes} "
              "(tests/versions/fetch_runtimes.py takes it, and needs a network)")
        sys.exit(EXIT_SKIPPED)
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "apps"))
    import run_app  # pylint: disable=import-outside-toplevel
    sys.argv = ["run_app.py", "--build", arguments.build, arguments.backend, arguments.program,
                str(libraries[0])]
    run_app.main()


if __name__ == "__main__":
    main()
