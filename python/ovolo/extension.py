"""What cost models and extractors that are written in Python are given.

A cost model is an object with a method ``seconds``, and an extractor one with a method ``extract``. Both may have an
attribute ``name``; without it, they are called after their class. :func:`ovolo.compile` takes such an object in place
of a name, and adds it to a registry of its own::

    class Flops:
        def seconds(self, kernel):
            return 1e-6 + kernel.flops / 1e10

    class First:
        def extract(self, problem):
            ...

    ovolo.compile("model.onnx", cost=Flops(), extractor=First())

A cost model that prices many kernels faster at once, such as one of scikit-learn, has a method ``batch`` instead. It
gets a list of kernels, and returns as many prices::

    class Learned:
        def batch(self, kernels):
            return regressor.predict([[kernel.flops, kernel.bytes] for kernel in kernels])

A cost model may also have ``copy(bytes)``, the seconds of a copy that a plan adds.
"""

import collections
from collections.abc import Collection
from typing import NamedTuple

#: For each class the index of a candidate; classes that nothing needs may be left out, or have ``None``.
Choice = dict[int, int] | list[int | None]


class Kernel(dict[str, float | str]):
    """The features of one kernel by their names, as a dictionary and as attributes.

    ``ovolo features MODEL`` lists them: ``op``, ``backend``, ``implementation``, ``flops``, ``bytes``, ``layout_out``,
    and so on.
    """

    def __getattr__(self, name: str) -> float | str:
        """A feature."""
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"a kernel has no feature `{name}`: it has {', '.join(self)}") from None


class Candidate(NamedTuple):
    """One way to compute a class of an e-graph."""

    #: Seconds, by the cost model; infinite if it cannot be run.
    cost: float
    #: The numbers of the classes that it reads.
    children: tuple[int, ...]
    #: Its place in the order of all candidates, which decides ties.
    rank: int


class Problem:
    """An e-graph with prices, from which an extractor chooses.

    ``classes`` has, for each class, the list of its candidates. ``roots`` are the numbers of the classes that must be
    computed. A choice is a dictionary from numbers of classes to indices of candidates, or a list with an index or
    ``None`` for each class.
    """

    def __init__(self, classes: list[list[Candidate]], roots: list[int]) -> None:
        """Makes a problem of lists of candidates."""
        self.classes = classes
        self.roots = roots

    def cost(self, choice: Choice) -> float:
        """The seconds of a choice: the sum over the distinct classes that the roots reach through it.

        Refuses a choice that has a circle, or lacks a class that is reached.
        """
        return sum(self._chosen(choice, at).cost for at in self.order(choice))

    def _chosen(self, choice: Choice, at: int) -> Candidate:
        """The candidate that a choice has for a class."""
        try:
            index = choice[at]
        except (KeyError, IndexError):
            index = None
        except TypeError:
            raise TypeError(f"a choice is a dictionary or a list, not {type(choice).__name__}") from None
        if index is None:
            raise ValueError(f"the roots need class {at}, and the choice has no candidate for it")
        if not 0 <= index < len(self.classes[at]):
            raise ValueError(f"class {at} has {len(self.classes[at])} candidates, so {index} is the index of none")
        return self.classes[at][index]

    def order(self, choice: Choice) -> list[int]:
        """The classes that the roots reach through a choice, operands first.

        Refuses a choice that has a circle, or lacks a class that is reached.
        """
        order, marks, stack = [], {}, [(root, False) for root in reversed(self.roots)]
        while stack:
            at, left = stack.pop()
            if left:
                marks[at] = True
                order.append(at)
            elif at not in marks:
                marks[at] = False
                stack.append((at, True))
                stack.extend((child, False) for child in reversed(self._chosen(choice, at).children))
            elif not marks[at]:
                raise ValueError(f"class {at} depends on itself through this choice")
        return order

    def greedy(self, free: Collection[int] = ()) -> dict[int, int]:
        """A choice that takes the cheapest candidate of each class, priced as a tree: what is shared counts each time.

        Who reads a class of ``free`` gets it for nothing, as if it were computed anyway. Such a choice may have a
        circle.
        """
        free = frozenset(free)
        if unknown := [one for one in free if one not in range(len(self.classes))]:
            raise ValueError(f"`free` has {unknown[0]!r}, and the classes are 0 to {len(self.classes) - 1}")
        readers: list[list[tuple[int, int, Candidate]]] = [[] for _ in self.classes]
        best: dict[int, tuple[float, int]] = {}
        changed: collections.deque[int] = collections.deque()

        def offer(at: int, index: int, one: Candidate) -> None:
            if all(child in best for child in one.children):
                price = one.cost + sum(best[child][0] for child in one.children if child not in free)
                if price < best.get(at, (float("inf"), 0))[0]:
                    best[at] = (price, index)
                    changed.append(at)

        for at, candidates in enumerate(self.classes):
            for index, one in enumerate(candidates):
                for child in dict.fromkeys(one.children):
                    readers[child].append((at, index, one))
                if not one.children:
                    offer(at, index, one)
        # A class whose price falls changes the prices of those that read it.
        while changed:
            for reader in readers[changed.popleft()]:
                offer(*reader)
        return {at: index for at, (_, index) in best.items()}

    def __repr__(self) -> str:
        """The size."""
        return f"Problem({len(self.classes)} classes, {sum(map(len, self.classes))} candidates)"
