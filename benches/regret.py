#!/usr/bin/env python3
"""Measure the regret of the shipped prices: how much longer their plans take than the best known ones.

    benches/regret.py OVOLO MODELS TABLE.csv… [--models NAME,…] [--threads 2] [--rounds 7] [--seconds 0.3]
                      [--pipeline native] [--without-table NAME,…]

MODELS is a folder as `benches/peers.py` takes it, and each TABLE.csv is one that `ovolo costs table` has written. For each
network that the tables contain, prices are fitted to the tables without it (`ovolo costs fit --without NAME`); for
others, to the whole tables. With --without-table, tables are left out as well, for example those of the machine on which
this script runs. Then four plans run in turns: by the prices that do not know the network, by the shipped
ones (`fitted`), by the roofline alone, and by the times of this machine (`measured`; run `ovolo tune` on each model
before). The best known plan is the fastest of the four. A cell is the time of a plan divided by that of the best known
one, less 1, in percent. The time of a plan is the least of its medians by round, since other work of a machine only makes
runs slower. Use a machine that does nothing else.
"""
import argparse
import csv
import json
import os
import statistics
import subprocess
import sys
import tempfile

from peers import feed_of, found, machine

PLANS = {"held out": ["--costs"], "fitted": ["--cost", "fitted"], "roofline": ["--cost", "roofline"],
         "measured": ["--cost", "measured"]}


def call(command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout


def models_of(table):
    with open(table, newline="") as lines:
        return {line["model"] for line in csv.DictReader(line for line in lines if not line.startswith("#"))}


def row(options, name, model, inputs, prices):
    times = {plan: [] for plan in PLANS}
    for _ in range(options.rounds):
        for plan, words in PLANS.items():
            command = [options.ovolo, "bench", model, "--inputs", inputs, "--pipeline", options.pipeline, "--json"]
            command += ["--threads", str(options.threads), "--seconds", str(options.seconds), *words]
            command += [prices] if words == ["--costs"] else []
            times[plan].append(json.loads(call(command).splitlines()[-1])["median_ms"])
    return {plan: min(taken) for plan, taken in times.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ovolo")
    parser.add_argument("folder")
    parser.add_argument("tables", nargs="+")
    parser.add_argument("--models", help="names, with commas between")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.3)
    parser.add_argument("--pipeline", default="native")
    parser.add_argument("--without-table", help="tables to leave out, by the names of their files without endings")
    options = parser.parse_args()
    names = {os.path.splitext(os.path.basename(table))[0]: table for table in options.tables}
    for table in options.without_table.split(",") if options.without_table else []:
        if names.pop(table, None) is None:
            sys.exit(f"--without-table {table}: there are {', '.join(names)}")
    known = set().union(*map(models_of, names.values()))
    models = list(found(options.folder))
    if options.models:
        models = [one for one in models if one[0] in options.models.split(",")]
    print(machine(options) + "\n\n| | best, ms | " + " | ".join(f"{plan}, %" for plan in PLANS) + " |", flush=True)
    print("|---" * (len(PLANS) + 2) + "|", flush=True)
    regrets = {plan: [] for plan in PLANS}
    with tempfile.TemporaryDirectory() as work:
        for name, model, inputs in models:
            prices = os.path.join(work, f"without-{name}.ron")
            without = ["--without", name] if name in known else []
            call([options.ovolo, "costs", "fit", *names.values(), *without, "--quick", "--out", prices])
            if inputs is None:
                inputs = os.path.join(work, name)
                os.makedirs(inputs)
            feed_of(model, inputs)
            times = row(options, name, model, inputs, prices)
            best = min(times.values())
            for plan, taken in times.items():
                regrets[plan].append(100 * (taken / best - 1))
            cells = [f"{regrets[plan][-1]:.1f}" for plan in PLANS]
            print(f"| {name} | {best:.3f} | " + " | ".join(cells) + " |", flush=True)
    for title, of in (("mean", statistics.mean), ("worst", max)):
        print(f"| {title} | | " + " | ".join(f"{of(all):.1f}" for all in regrets.values()) + " |")


if __name__ == "__main__":
    main()
