#!/usr/bin/env python3
"""Run an experiment on a Ray cluster: each shard is a task, and the results are merged.

    python3 shards.py SPEC.ron --shards 4 --out DIR [--ovolo PATH] [--address ADDRESS] [--cpus 2]

Without an address, a cluster is started on this machine. A shard needs the spec, the files that it names, and
the program `ovolo` at the same paths on each machine; its results come back through Ray. The merge refuses shards
of different machines. To compare machines, run all tasks on each and merge with `--compare`.
"""

import argparse
import pathlib
import subprocess
import sys
import tempfile

import ray


@ray.remote
def shard(ovolo, spec, number, count):
    """Return the files of one shard's results: names and contents."""
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "results"
        command = [ovolo, "experiment", spec, "--shard", f"{number}/{count}", "--out", str(out)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"shard {number}/{count}: {done.stderr.strip()}")
        return {file.name: file.read_bytes() for file in out.iterdir() if file.is_file()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("spec", type=pathlib.Path)
    parser.add_argument("--shards", type=int, default=2)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--ovolo", default="ovolo")
    parser.add_argument("--address")
    parser.add_argument("--cpus", type=int, default=2, help="of a cluster that is started here")
    parser.add_argument("--compare", action="store_true")
    given = parser.parse_args()
    if given.address:
        ray.init(address=given.address, log_to_driver=False)
    else:
        ray.init(num_cpus=given.cpus, include_dashboard=False, log_to_driver=False, logging_level="error")
    spec = str(given.spec.resolve())
    shards = [shard.remote(given.ovolo, spec, number + 1, given.shards) for number in range(given.shards)]
    with tempfile.TemporaryDirectory() as folder:
        folders = []
        for number, files in enumerate(ray.get(shards), 1):
            there = pathlib.Path(folder) / f"shard-{number}"
            there.mkdir()
            for name, content in files.items():
                (there / name).write_bytes(content)
            folders.append(str(there))
        command = [given.ovolo, "experiment", "merge", spec, *folders, "--out", str(given.out)]
        merged = subprocess.run(command + ["--compare"] * given.compare, check=False)
    ray.shutdown()
    sys.exit(merged.returncode)


if __name__ == "__main__":
    main()
