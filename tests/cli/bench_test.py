#!/usr/bin/env python3
# vgpu bench measures everything that it names; what comes out is nobody's business here.
# SPDX-License-Identifier: Apache-2.0
from harness import expect, vgpu


def main():
    result = vgpu("bench", "--quick", seconds=250)
    expect(result.returncode == 0, "the bench ends well", result)
    expect("not measured" not in result.stdout, "and has measured all of its rows", result)


if __name__ == "__main__":
    main()
