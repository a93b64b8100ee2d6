#!/usr/bin/env python3
# Runs one application on a back end; in a guest its output must equal the direct run's.
# SPDX-License-Identifier: Apache-2.0
"""Usage: run_app.py --build BUILD [--copies N] [--seconds N] [--any-order]
       [--nvml] (direct|shm|guest|fabric|cuda) APP [ARG…]

direct  preloads the software GPU itself.
shm     starts a vgpud of its own on the software GPU, runs the application through `vgpu run`,
        and once more directly; both outputs must be equal, byte for byte.
guest   the same without the direct run.
fabric  the same as shm, a guest on another host: over the loopback network, by a gate without keys.
cuda    runs it on the machine's own driver.
With --copies so many run at once, in guests of one server; each must print the same. With
--any-order the lines may come in another order. What it says on stderr must be equal, too.
With --nvml a program that runs directly finds our management library, which asks a server
that is started for that. A run that takes longer than --seconds (170) has hung.
"""
import argparse
import concurrent.futures
import difflib
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

RUN_SECONDS_MAX = 170  # unless the command line says otherwise
START_SECONDS_MAX = 20
STOP_SECONDS_MAX = 10
SETTINGS = {"seconds": RUN_SECONDS_MAX, "nvml": False}


def toolkit_libraries(build):
    """Folder of libcudart.so.N for programs built with the shared runtime."""
    for line in (build / "CMakeCache.txt").read_text().splitlines():
        if line.startswith("VGPU_NVCC:"):
            root = pathlib.Path(line.split("=", 1)[1]).resolve().parents[1]
            return [str(root / "lib64"), str(root / "lib")]
    return []


def environment(build, **more):
    env = dict(os.environ)
    env.pop("LD_PRELOAD", None)
    paths = toolkit_libraries(build) + more.pop("libraries", [])
    env["LD_LIBRARY_PATH"] = ":".join(paths + [env.get("LD_LIBRARY_PATH", "")]).rstrip(":")
    env.update(more)
    return env


def children(pid):
    """Processes that `pid` has started."""
    for entry in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = entry.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue  # it has ended
        if int(fields[1]) == pid:
            yield int(entry.parent.name)


def run(command, env):
    """(exit code, stdout, stderr). Never hangs."""
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          stdin=subprocess.DEVNULL, start_new_session=True) as process:
        try:
            out, errors = process.communicate(timeout=SETTINGS["seconds"])
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, errors = process.communicate()
            print(f"hung: {' '.join(command)}", file=sys.stderr)
            return 124, out, errors
    return process.returncode, out, errors


def run_direct(build, command):
    library = build / "lib/softgpu/libcuda.so.1"
    if not library.exists():
        sys.exit(f"{library} is not built")
    if SETTINGS["nvml"]:
        with Server(build) as server:
            libraries = [str(library.parent), str(build / "lib/guest")]
            return run(command, environment(build, LD_PRELOAD=str(library), libraries=libraries,
                                            VGPU_SERVER=server.address))
    return run(command,
               environment(build, LD_PRELOAD=str(library), libraries=[str(library.parent)]))


class Server:
    """A vgpud of one's own in a temporary folder."""

    def __init__(self, build, *options):
        self.build = build
        self.options = list(options)
        self.folder = tempfile.TemporaryDirectory(prefix="vgpu-app-")
        self.socket = pathlib.Path(self.folder.name) / "vgpud.sock"
        self.address = f"unix:{self.socket}"

    def __enter__(self):
        self.log = open(pathlib.Path(self.folder.name) / "vgpud.log", "w+b")
        self.process = subprocess.Popen(
            [str(self.build / "bin/vgpud"), "--listen", self.address, "--driver", "soft",
             *self.options],
            stdout=self.log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
            env=environment(self.build), start_new_session=True)
        limit = time.monotonic() + START_SECONDS_MAX
        while not self.socket.exists():
            if self.process.poll() is not None or time.monotonic() > limit:
                self.show_log()
                self.__exit__(SystemExit)
                sys.exit("vgpud did not start")
            time.sleep(0.01)
        return self

    def show_log(self):
        self.log.seek(0)
        sys.stderr.write(self.log.read().decode(errors="replace"))

    def __exit__(self, failure=None, *_):
        code = self.process.poll()
        end = "ended on its own" if code is not None else "ended on SIGTERM"
        if code is None:
            self.process.terminate()
            try:
                self.process.wait(STOP_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                print("vgpud did not stop on SIGTERM", file=sys.stderr)
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait()
            code = self.process.returncode
        well = code == 0 and end == "ended on SIGTERM"
        if failure is None and not well:
            self.show_log()
        self.log.close()
        self.folder.cleanup()
        if failure is None and not well:
            sys.exit(f"vgpud {end} with {code}")


def run_shm(build, command, copies):
    with Server(build) as server:
        guest = [str(build / "bin/vgpu"), "run", "--server", server.address, "--"]
        with concurrent.futures.ThreadPoolExecutor(copies) as pool:
            env = environment(build)
            if copies > 1:
                env["VGPU_MEM"] = "256M"  # so that all of them fit
            jobs = [pool.submit(run, guest + command, env) for _ in range(copies)]
        results = [job.result() for job in jobs]
        result = next((r for r in results if r != results[0]), results[0])
        if any(r[0] != 0 for r in results):
            server.show_log()
            result = next(r for r in results if r[0] != 0)
    return result


class PlainGate:
    """What brings remote guests to a server in tests: no keys."""

    def __init__(self, build, server):
        self.path = pathlib.Path(server.folder.name) / "gate.sock"
        self.process = subprocess.Popen(
            [str(build / "tests/net/plain_gate"), "--listen", str(self.path),
             "--server", str(server.socket)], stdin=subprocess.DEVNULL)
        limit = time.monotonic() + START_SECONDS_MAX
        while not self.path.exists():
            if self.process.poll() is not None or time.monotonic() > limit:
                sys.exit("plain_gate did not start")
            time.sleep(0.01)
        guest = build / "lib/guest"
        self.settings = {
            "LD_PRELOAD": str(guest / "libcuda.so.1"), "libraries": [str(guest)],
            "VGPU_SERVER": "tcp://127.0.0.1:1", "VGPU_TEST_RENDEZVOUS": str(self.path),
            "VGPU_NET_PLUGIN": str(build / "lib/plain/libvgpu-net.so")}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()


def run_fabric(build, command, **more):
    with Server(build) as server, PlainGate(build, server) as gate:
        result = run(command, environment(build, **gate.settings, **more))
        if result[0] != 0:
            server.show_log()
    return result


def show_difference(what, direct, shm):
    sys.stdout.writelines(difflib.unified_diff(
        direct.decode(errors="replace").splitlines(True),
        shm.decode(errors="replace").splitlines(True), f"direct {what}", f"shm {what}"))


def in_order(text):
    return b"".join(sorted(text.splitlines(True)))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--copies", type=int, default=1)
    parser.add_argument("--any-order", action="store_true")
    parser.add_argument("--seconds", type=int, default=RUN_SECONDS_MAX)
    parser.add_argument("--nvml", action="store_true")
    parser.add_argument("backend", choices=["direct", "shm", "guest", "fabric", "cuda"])
    parser.add_argument("command", nargs=argparse.REMAINDER)
    arguments = parser.parse_args()
    build, command = arguments.build.resolve(), arguments.command
    SETTINGS.update(seconds=arguments.seconds, nvml=arguments.nvml)
    if arguments.backend == "cuda":
        code, out, errors = run(command, environment(build))
    elif arguments.backend == "direct":
        code, out, errors = run_direct(build, command)
    elif arguments.backend == "fabric":
        code, out, errors = run_fabric(build, command)
    else:
        code, out, errors = run_shm(build, command, arguments.copies)
    sys.stdout.write(out.decode(errors="replace"))
    sys.stderr.write(errors.decode(errors="replace"))
    if code != 0:
        sys.exit(f"exit code {code}")
    if arguments.backend in ("shm", "fabric"):
        direct_code, direct, direct_errors = run_direct(build, command)
        if arguments.any_order:
            direct, out = in_order(direct), in_order(out)
        if direct_code != 0 or direct != out or direct_errors != errors:
            show_difference("stdout", direct, out)
            show_difference("stderr", direct_errors, errors)
            sys.exit(f"output differs from the direct run (exit code {direct_code})")


if __name__ == "__main__":
    main()
