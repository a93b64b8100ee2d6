#!/usr/bin/env python3
# Installs to a temporary prefix, runs the demo from there and uses the CMake package.
# SPDX-License-Identifier: Apache-2.0
import os
import pathlib
import subprocess
import tempfile

from harness import BUILD, environment, expect, vgpu

PROJECT = """
cmake_minimum_required(VERSION 3.25)
project(user LANGUAGES NONE)
find_package(vgpu 0.1 REQUIRED)
foreach(name guest softgpu vgpu vgpud)
  if(NOT TARGET vgpu::${name})
    message(FATAL_ERROR "no target vgpu::${name}")
  endif()
  get_target_property(path vgpu::${name} IMPORTED_LOCATION)
  if(NOT EXISTS "${path}")
    message(FATAL_ERROR "vgpu::${name} is not at ${path}")
  endif()
endforeach()
"""
FILES = ["bin/vgpu", "bin/vgpud", "bin/vgpu-worker", "lib/vgpu/guest/libcuda.so.1",
         "lib/vgpu/softgpu/libcuda.so.1", "lib/vgpu/bench/vgpu-bench-guest",
         "lib/vgpu/bench/libcuda-null.so", "lib/systemd/system/vgpud.service",
         "share/vgpu/vgpud.example.toml", "share/doc/vgpu/README.md",
         "lib/cmake/vgpu/vgpuConfig.cmake", "share/doc/vgpu/docs/monitoring/dashboard.json"]
if (BUILD / "lib/guest/libnvidia-ml.so.1").exists():  # left out where there is no nvml.h
    FILES.append("lib/vgpu/guest/libnvidia-ml.so.1")


def command(*arguments):
    result = subprocess.run(arguments, env=environment(), capture_output=True, text=True)
    expect(result.returncode == 0, " ".join(arguments[:2]), result)


def main():
    with tempfile.TemporaryDirectory(prefix="vgpu-install-test-") as name:
        folder = pathlib.Path(name)
        prefix, project = folder / "prefix", folder / "project"
        command("cmake", "--install", str(BUILD), "--prefix", str(prefix))
        for file in FILES:
            expect((prefix / file).exists(), f"{file} is installed")
        project.mkdir()
        (project / "CMakeLists.txt").write_text(PROJECT)
        command("cmake", "-S", str(project), "-B", str(project / "build"),
                f"-DCMAKE_PREFIX_PATH={prefix}")
        temporary = folder / "tmp"
        temporary.mkdir()
        result = vgpu("demo", "--rounds", "1", program=str(prefix / "bin/vgpu"),
                      TMPDIR=str(temporary))
        expect(result.returncode == 0, "the installed demo works", result)
        expect(not os.listdir(temporary), "and cleans up")


if __name__ == "__main__":
    main()
