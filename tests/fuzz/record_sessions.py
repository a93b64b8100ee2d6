#!/usr/bin/env python3
# Records what the test applications write into their rings, as the session fuzzer's corpus.
# SPDX-License-Identifier: Apache-2.0
"""Usage: record_sessions.py --build BUILD [--into tests/fuzz/corpus/session]

To be run again when records change their layout. Long sessions are cut: the fuzzer looks at the
first part of an input only. What went through a slab is not recorded, so graphs, whose nodes a
session must read, come from small tests. To drop what adds nothing, merge afterwards:
session_fuzz -merge=1 NEW OLD.
"""
import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "apps"))
import run_app  # pylint: disable=import-error,wrong-import-position

APPS = ["vecadd", "matmul", "reduce", "histogram", "streams", "devprop", "fault", "oom",
        "many_threads", "driver_errors", "driver_ptx", "big_copy", "callbacks", "pools",
        "managed", "pitched", "surfaces", "services", "each_device"]
DEVICES = "2"  # as session_script.cc has
# Tests of the conformance suite, which finds the preloaded guest library as a machine's own driver.
TESTS = {
    "graph_work": "GraphExecTest.ChainRunsInOrder"
                  ":GraphExecTest.EventsAcrossStreams:GraphExecTest.MemoryOperations"
                  ":GraphExecTest.Rows",
    "graph_updates": "GraphUpdateTest.*-GraphUpdateTest.ParametersOfALaunchThatWaits",
    "batches": "BatchTest.*:BatchRectTest.*",
    "vmm": "VmmTest.*",
    "graph_functions": "GraphHostTest.*",
    "arrays": "ArrayTest.*-ArrayTest.Takes*",  # those need all memory, which here is less
    "stream_memory": "StreamMemoryTest.*",
}
BYTES_MAX = 24000
RUN_SECONDS_MAX = 60


def record(build, server, command, recorder):
    """The session's bytes; empty when the program left none."""
    with tempfile.NamedTemporaryFile() as out:
        env = run_app.environment(
            build, LD_PRELOAD=f"{recorder}:{build / 'lib/guest/libcuda.so.1'}",
            VGPU_SERVER=server.address, VGPU_RECORD_INTO=out.name, VGPU_TEST_BACKEND="cuda")
        subprocess.run(command, env=env, timeout=RUN_SECONDS_MAX, stdin=subprocess.DEVNULL,
                       stdout=subprocess.DEVNULL, check=False)
        return pathlib.Path(out.name).read_bytes()


def cut(session):
    """The whole records that fit into BYTES_MAX; a record begins with its length."""
    end = 1
    while end + 4 <= len(session):
        length = int.from_bytes(session[end:end + 4], "little")
        if end + length > min(len(session), BYTES_MAX):
            break
        end += length
    return session[:end]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--into", type=pathlib.Path, default=HERE / "corpus/session")
    arguments = parser.parse_args()
    build = arguments.build.resolve()
    recorder = build / "lib/fuzz/libsession_recorder.so"
    arguments.into.mkdir(parents=True, exist_ok=True)
    os.environ["VGPU_SOFTGPU_DEVICES"] = DEVICES
    with run_app.Server(build) as server:
        commands = {app: [build / "tests/apps" / app] for app in APPS}
        for name, tests in TESTS.items():
            commands[name] = [build / "tests/conformance/vgpu_conformance",
                              f"--gtest_filter={tests}"]
        for name, command in commands.items():
            if not os.access(command[0], os.X_OK):
                print(f"{name}: not built, left out")
                continue
            session = record(build, server, command, recorder)
            print(f"{name}: {len(session)} bytes")
            if session:
                (arguments.into / f"recorded-{name}").write_bytes(cut(session))


if __name__ == "__main__":
    main()
