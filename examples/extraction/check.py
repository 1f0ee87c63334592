#!/usr/bin/env python3
"""Price the choice of `ovolo extract EGRAPH.json --json` independently of ovolo.

    ovolo extract egraph.json --json > chosen.json
    python3 examples/extraction/check.py egraph.json chosen.json

A choice is sound if it has a node for every class that the roots reach through it, if no class depends on
itself, and if its cost is the sum over those classes, each counted once. The exit code is 1 if one of these
conditions fails, or if the bound is above the cost.
"""

import json
import math
import sys


def price(egraph, choices):
    """Return the cost of a choice of nodes, given by e-class. Raise ValueError if the choice is not sound."""
    nodes = egraph["nodes"]
    total, done, path = 0.0, set(), set()
    # Classes, and whether all their operands have been visited.
    stack = [(root, False) for root in egraph["root_eclasses"]]
    while stack:
        eclass, left = stack.pop()
        if left:
            path.discard(eclass)
            done.add(eclass)
            continue
        if eclass in done:
            continue
        if eclass in path:
            raise ValueError(f"class {eclass} depends on itself")
        if eclass not in choices:
            raise ValueError(f"nothing is chosen for class {eclass}")
        node = nodes.get(choices[eclass])
        if node is None or node["eclass"] != eclass:
            raise ValueError(f"{choices[eclass]} is not a node of class {eclass}")
        cost = node.get("cost", 1.0)
        if cost is None or node.get("subsumed"):
            raise ValueError(f"node {choices[eclass]} cannot be run")
        total += cost
        path.add(eclass)
        stack.append((eclass, True))
        for child in node.get("children", []):
            child = nodes[child]["eclass"]
            if child in path:
                raise ValueError(f"class {child} depends on itself")
            stack.append((child, False))
    return total


def read(path, key):
    """Return the JSON object in a file, which must have a key."""
    try:
        with open(path, encoding="utf-8") as file:
            value = json.load(file)
    except (OSError, ValueError) as error:
        sys.exit(f"{path}: {error}")
    if not isinstance(value, dict) or key not in value:
        sys.exit(f"{path}: there is no object with the key `{key}`")
    return value


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: check.py EGRAPH.json CHOSEN.json")
    egraph, said = read(sys.argv[1], "nodes"), read(sys.argv[2], "choices")
    try:
        cost = price(egraph, said["choices"])
    except ValueError as error:
        sys.exit(f"{sys.argv[2]}: {error}")
    if said.get("cost") is None:
        sys.exit(f"{sys.argv[2]}: reports no cost; the choice costs {cost}")
    if not math.isclose(cost, said["cost"], rel_tol=1e-9, abs_tol=1e-12):
        sys.exit(f"{sys.argv[2]}: reports cost {said['cost']}, but costs {cost}: are both files of one e-graph?")
    bound = said.get("bound")
    if bound is None:
        print(f"cost {cost:.9g}, no bound: sound")
        return
    if bound > cost * (1 + 1e-9):
        sys.exit(f"{sys.argv[2]}: the bound {bound} is above the cost {cost}")
    gap = 1 - bound / cost if cost else 0.0
    print(f"cost {cost:.9g}, bound {bound:.9g}, gap {gap:.3%}: sound")


if __name__ == "__main__":
    main()
