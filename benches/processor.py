#!/usr/bin/env python3
"""Runs a command as on a processor with fewer instruction sets, so that one machine can stand for several.

    benches/processor.py KIND COMMAND [ARGUMENT…]

KIND is `avx2` (no AVX-512, VNNI and AMX), `avx512` (AVX-512 without VNNI and AMX) or `vnni` (all but AMX). The command may be any
program, such as another script of this folder or `ovolo` itself; what it starts is restricted, too. For example:

    benches/processor.py avx2 benches/peers.py target/release/ovolo target/models --pipeline native

Instruction sets are hidden, not slowed down: caches, memory and clock rates stay those of this machine. Needs Linux on
64-bit x86, a processor with `cpuid_fault` in /proc/cpuinfo, and a C compiler. How it works is said in `processor.c`.
"""
import os
import pathlib
import subprocess
import sys
import tempfile

KINDS = ["avx2", "avx512", "vnni"]


def main():
    if len(sys.argv) < 3 or sys.argv[1] not in KINDS:
        sys.exit(f"usage: processor.py {'|'.join(KINDS)} COMMAND [ARGUMENT…]")
    kind, command = sys.argv[1], sys.argv[2:]
    source = pathlib.Path(__file__).with_name("processor.c")
    with tempfile.TemporaryDirectory() as folder:
        library = os.path.join(folder, "processor.so")
        compiler = os.environ.get("CC", "cc")
        try:
            subprocess.run([compiler, "-O2", "-shared", "-fPIC", "-o", library, source], check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            sys.exit(f"processor.py: {source} cannot be compiled: {error}")
        preload = ":".join(filter(None, [library, os.environ.get("LD_PRELOAD")]))
        environment = {**os.environ, "LD_PRELOAD": preload, "OVOLO_BENCH_PROCESSOR": kind}
        try:
            sys.exit(subprocess.run(command, env=environment).returncode)
        except OSError as error:
            sys.exit(f"processor.py: {command[0]}: {error.strerror}")


if __name__ == "__main__":
    main()
