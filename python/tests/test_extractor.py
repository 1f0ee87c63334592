"""Extractors that are written in Python."""

import numpy as np
import ovolo
import pytest


class Greedy:
    """Takes the cheapest tree."""

    def extract(self, problem):
        return problem.greedy()


def compiled(digits, extractor):
    return ovolo.compile(digits, dims={"N": 1}, pipeline="native", cost="flops", extractor=extractor, threads=1)


def test_an_extractor_in_python_chooses(digits, images):
    plan = compiled(digits, Greedy())
    assert plan.extraction["extractor"] == "greedy"
    assert not plan.extraction["proven"]
    exact = compiled(digits, "exact")
    assert plan.seconds >= exact.seconds * (1 - 1e-9)
    np.testing.assert_allclose(
        plan.run({"image": images[:1]})[0], exact.run({"image": images[:1]})[0], rtol=1e-3, atol=1e-3
    )


def test_a_choice_may_be_a_list(digits):
    class Listed:
        def extract(self, problem):
            choice = problem.greedy()
            needed = set(problem.order(choice))
            return [choice[at] if at in needed else None for at in range(len(problem.classes))]

    assert compiled(digits, Listed()).seconds == compiled(digits, Greedy()).seconds


def test_an_exception_is_the_cause_of_the_error(digits):
    class Broken:
        def extract(self, problem):
            raise ZeroDivisionError("no luck")

    with pytest.raises(ovolo.Error, match="the extractor `broken` failed: ZeroDivisionError: no luck") as caught:
        compiled(digits, Broken())
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


@pytest.mark.parametrize(("choice", "why"), [
    (lambda problem: {}, "nothing is chosen"),
    (lambda problem: [0], "one entry for each class"),
    (lambda problem: {len(problem.classes): 0}, "there is no class"),
    (lambda problem: {at: 10**6 for at in range(len(problem.classes))}, "none of its candidates .candidate 1000000."),
    (lambda problem: {"first": 0}, "'first' is not the number of a class"),
    (lambda problem: {0: "first"}, "class 0: 'first' is not the number of a candidate"),
    (lambda problem: "everything", "class 0: 'e' is not the number of a candidate"),
    (lambda problem: None, "a choice is a list, or a dictionary by classes, of candidates, not None"),
])
def test_a_choice_that_is_none_is_refused(digits, choice, why):
    class Wrong:
        def extract(self, problem):
            return choice(problem)

    with pytest.raises(ovolo.Error, match=f"the extractor `wrong` failed: .*{why}"):
        compiled(digits, Wrong())


def test_what_has_no_method_is_refused(digits):
    with pytest.raises(TypeError, match="an extractor is a name, or an object with a method `extract`"):
        compiled(digits, object())


def test_a_problem_is_ordered_and_priced():
    one, two = ovolo.Candidate(1.0, (), 0), ovolo.Candidate(2.0, (0, 0), 1)
    problem = ovolo.Problem([[one], [two], [ovolo.Candidate(0.0, (2,), 2)]], [1])
    assert problem.order([0, 0, None]) == [0, 1]
    assert problem.cost({0: 0, 1: 0}) == 3.0
    assert problem.greedy() == {0: 0, 1: 0}
    assert repr(problem) == "Problem(3 classes, 3 candidates)"
    with pytest.raises(ValueError, match="depends on itself"):
        ovolo.Problem(problem.classes, [2]).order([0, 0, 0])


def test_a_greedy_choice_of_a_long_chain_is_made_at_once():
    """A class may stand before what it reads, as in a chain from its end."""
    length = 20_000
    chain = [[ovolo.Candidate(1.0, (at + 1,), 0), ovolo.Candidate(1e9, (), 1)] for at in range(length)]
    problem = ovolo.Problem([*chain, [ovolo.Candidate(1.0, (), 0)]], [0])
    assert problem.greedy() == {at: 0 for at in range(length + 1)}
    # Without the price of what it reads, each would rather read.
    assert ovolo.Problem(chain[:1] + [[ovolo.Candidate(2e9, (), 0)]], [0]).greedy(free=[1]) == {0: 0, 1: 0}


def test_a_limit_that_no_plan_keeps_is_the_reason(digits):
    def said(extractor):
        with pytest.raises(ovolo.Error) as caught:
            ovolo.compile(
                digits, dims={"N": 1}, pipeline="native", cost="flops", extractor=extractor, memory_limit=64, threads=1
            )
        return str(caught.value)

    why = "the smallest plan that was found needs"
    assert why in said("greedy-dag") and why in said(Greedy())


@pytest.mark.parametrize(("choice", "why"), [
    ({}, "the roots need class 1, and the choice has no candidate for it"),
    ([0], "the roots need class 1, and the choice has no candidate for it"),
    ([None, 3], "class 1 has 1 candidates, so 3 is the index of none"),
    ([None, 0], "the roots need class 0, and the choice has no candidate for it"),
])
def test_a_choice_that_lacks_a_class_has_no_cost(choice, why):
    problem = ovolo.Problem([[ovolo.Candidate(1.0, (), 0)], [ovolo.Candidate(2.0, (0,), 0)]], [1])
    assert problem.cost({0: 0, 1: 0}) == 3
    with pytest.raises(ValueError, match=why):
        problem.cost(choice)
    with pytest.raises(TypeError, match="a choice is a dictionary or a list, not NoneType"):
        problem.order(None)


def test_classes_that_do_not_exist_are_not_free():
    problem = ovolo.Problem([[ovolo.Candidate(1.0, (), 0)]], [0])
    assert problem.greedy(free=[0]) == {0: 0}
    for free in ("a", [1], [-1]):
        with pytest.raises(ValueError, match="`free` has .*, and the classes are 0 to 0"):
            problem.greedy(free=free)
