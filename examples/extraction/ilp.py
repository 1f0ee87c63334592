#!/usr/bin/env python3
"""Extract by integer programming (HiGHS through scipy), to compare with ovolo's extractors.

    ovolo dump model.onnx --egraph egraph.json
    python3 examples/extraction/ilp.py egraph.json --seconds 60 > chosen.json
    python3 examples/extraction/check.py egraph.json chosen.json

There is a variable for each class and each node. A chosen node requires the classes that it reads. Inside strongly
connected components, further variables give the order in which classes are computed. The output has the form of
`ovolo extract --json`.
"""

import argparse
import json
import sys
import time

import numpy
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components


def model(egraph):
    """Return the nodes that can be run, the classes, the positions of classes, and the classes that each node reads."""
    nodes = {
        name: node
        for name, node in egraph["nodes"].items()
        if node.get("cost", 1.0) is not None and not node.get("subsumed")
    }
    classes = sorted({node["eclass"] for node in egraph["nodes"].values()})
    place = {eclass: at for at, eclass in enumerate(classes)}
    reads = {
        name: sorted({place[egraph["nodes"][child]["eclass"]] for child in node.get("children", [])})
        for name, node in nodes.items()
    }
    return nodes, classes, place, reads


def solve(egraph, seconds):
    nodes, classes, place, reads = model(egraph)
    names = list(nodes)
    own = [place[nodes[name]["eclass"]] for name in names]
    edges = [(own[at], child) for at, name in enumerate(names) for child in reads[name]]
    rows, columns = zip(*edges) if edges else ((), ())
    links = coo_array((numpy.ones(len(edges)), (rows, columns)), shape=(len(classes), len(classes)))
    _, component = connected_components(links, directed=True, connection="strong")
    size = numpy.bincount(component)
    # Variables: classes, then nodes, then the positions of classes in the order of computation.
    first, order = len(classes), len(classes) + len(names)
    entries, low, high = [], [], []

    def row(terms, least, most):
        entries.extend((len(low), column, value) for column, value in terms)
        low.append(least)
        high.append(most)

    members = [[] for _ in classes]
    for at, eclass in enumerate(own):
        members[eclass].append(first + at)
    for eclass, inside in enumerate(members):
        row([(column, 1.0) for column in inside] + [(eclass, -1.0)], 0.0, numpy.inf)
    for at, name in enumerate(names):
        for child in reads[name]:
            row([(child, 1.0), (first + at, -1.0)], 0.0, numpy.inf)
            if component[child] == component[own[at]]:
                many = float(size[component[child]])
                # A node that reads its own class is never chosen: 0 >= 1 - many (1 - x) + many.
                row(
                    [(first + at, -many - 1.0)] if child == own[at]
                    else [(order + own[at], 1.0), (order + child, -1.0), (first + at, -many)],
                    -many - 0.5 if child == own[at] else 1.0 - many,
                    numpy.inf,
                )
    width = order + len(classes)
    cost = numpy.zeros(width)
    cost[first:order] = [nodes[name].get("cost", 1.0) for name in names]
    # The solver's tolerances are absolute, so costs of microseconds would all look equal.
    scale = 1e3 / max(cost.max(), 1e-300)
    cost *= scale
    least, most = numpy.zeros(width), numpy.ones(width)
    most[order:] = size[component]
    for root in egraph["root_eclasses"]:
        least[place[root]] = 1.0
    at, column, value = zip(*entries)
    rows = coo_array((value, (at, column)), shape=(len(low), width)).tocsr()
    whole = numpy.concatenate([numpy.ones(order), numpy.zeros(len(classes))])
    result = milp(
        cost,
        constraints=LinearConstraint(rows, low, high),
        bounds=Bounds(least, most),
        integrality=whole,
        options={"time_limit": seconds, "mip_rel_gap": 0.0},
    )
    bound = result.mip_dual_bound / scale if result.mip_dual_bound is not None else 0.0
    return names, own, classes, first, result, bound


def chosen(egraph, names, own, classes, values, first):
    """Return the cheapest chosen node of each class that the roots reach."""
    best = {}
    for at, name in enumerate(names):
        if values[first + at] > 0.5:
            best.setdefault(classes[own[at]], name)
    choices, stack = {}, list(egraph["root_eclasses"])
    while stack:
        eclass = stack.pop()
        if eclass not in choices:
            choices[eclass] = best[eclass]
            children = egraph["nodes"][best[eclass]].get("children", [])
            stack += [egraph["nodes"][child]["eclass"] for child in children]
    return choices


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("egraph")
    parser.add_argument("--seconds", type=float, default=60.0, help="the most that the solver may take")
    given = parser.parse_args()
    with open(given.egraph, encoding="utf-8") as file:
        egraph = json.load(file)
    start = time.perf_counter()
    names, own, classes, first, result, bound = solve(egraph, given.seconds)
    if result.x is None:
        sys.exit(f"{given.egraph}: {result.message}")
    choices = chosen(egraph, names, own, classes, result.x, first)
    cost = sum(egraph["nodes"][name].get("cost", 1.0) for name in choices.values())
    said = {"cost": cost, "bound": min(cost, bound), "seconds": time.perf_counter() - start, "choices": choices}
    print(json.dumps(said))


if __name__ == "__main__":
    main()
