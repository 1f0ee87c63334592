"""Cost models that are written in Python."""

import itertools

import numpy as np
import ovolo
import pytest


class ByBytes:
    """A nanosecond for each byte."""

    def seconds(self, kernel):
        return kernel.bytes * 1e-9


def compiled(digits, cost):
    return ovolo.compile(digits, dims={"N": 1}, pipeline="native", cost=cost, threads=1)


def test_a_cost_model_in_python_decides(digits):
    plan = compiled(digits, ByBytes())
    assert plan.extraction["cost_model"] == "by-bytes"
    by_bytes = plan.seconds
    other = compiled(digits, "flops")
    assert by_bytes <= sum(plan.estimates(other)) * (1 + 1e-9)


def test_it_is_asked_once_for_each_kernel_and_gets_all_features(digits):
    asked = []

    class Curious:
        name = "curious"

        def seconds(self, kernel):
            asked.append(tuple(sorted(kernel.items())))
            assert kernel.op.startswith("native.") and kernel["flops"] == kernel.flops
            with pytest.raises(AttributeError, match="no feature `colour`"):
                _ = kernel.colour
            return 1e-6

        def copy(self, bytes):
            return bytes * 1e-9

    plan = compiled(digits, Curious())
    assert plan.extraction["cost_model"] == "curious"
    assert len(asked) == len(set(asked)) > 10


def test_a_batch_is_asked_for_all_kernels_at_once_and_decides_as_single_questions_do(digits):
    asked = []

    class AllByBytes:
        def batch(self, kernels):
            asked.append(len(kernels))
            return np.array([kernel.bytes * 1e-9 for kernel in kernels])

    plan = compiled(digits, AllByBytes())
    assert plan.steps == compiled(digits, ByBytes()).steps
    assert asked[0] > 10 and sum(asked[1:]) < asked[0] / 10


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        (lambda kernels: [1e-6], r"`wrong.batch` got \d+ kernels and returned 1 prices"),
        (lambda kernels: itertools.repeat(1e-6), r"returned more prices"),
        (lambda kernels: dict.fromkeys(range(len(kernels)), 1e-6), "not a mapping"),
        (lambda kernels: [None] * len(kernels), "`wrong.batch` gives None for it"),
        (lambda kernels: [-1.0] * len(kernels), "the answer -1 for a kernel of `native.[a-z-]+` is no time"),
        (lambda kernels: 1e-6, "TypeError: 'float' object is not iterable"),
    ],
)
def test_a_batch_that_is_answered_wrongly_is_refused(digits, answers, message):
    class Wrong:
        def batch(self, kernels):
            return answers(kernels)

    with pytest.raises(ovolo.Error, match=message):
        compiled(digits, Wrong())


def test_a_kernel_that_must_not_be_chosen_is_not(digits):
    class Without:
        def seconds(self, kernel):
            return float("inf") if kernel.op == banned else 1e-6

    banned = None
    banned = next(step["op"] for step in compiled(digits, Without()).steps if "conv" in step["op"])
    assert banned not in [step["op"] for step in compiled(digits, Without()).steps]


def test_an_exception_is_the_cause_of_the_error(digits):
    class Broken:
        def seconds(self, kernel):
            raise KeyError("a table of mine")

    with pytest.raises(ovolo.Error, match="^the cost model `broken`: KeyError: 'a table of mine'") as caught:
        compiled(digits, Broken())
    assert isinstance(caught.value.__cause__, KeyError)


def test_an_exception_in_a_session_for_any_size_is_the_cause_too(digits, images):
    class Broken:
        def seconds(self, kernel):
            raise KeyError("a table of mine")

    session = ovolo.InferenceSession(digits, pipeline="native", cost=Broken())
    with pytest.raises(ovolo.Error, match="KeyError: 'a table of mine'") as caught:
        session.run(None, {"image": images[:3]})
    assert isinstance(caught.value.__cause__, KeyError)


@pytest.mark.parametrize("end", [KeyboardInterrupt, SystemExit])
def test_what_ends_the_program_is_no_error_of_the_compilation(digits, images, end):
    class Interrupted:
        def seconds(self, kernel):
            raise end

    with pytest.raises(end):
        compiled(digits, Interrupted())
    session = ovolo.InferenceSession(digits, pipeline="native", cost=Interrupted())
    with pytest.raises(end):
        session.run(None, {"image": images[:3]})


def test_a_cost_model_cannot_run_the_session_that_asks_it(digits, images):
    class Circular:
        def seconds(self, kernel):
            self.session.run(None, {"image": images[:3]})
            return 1e-6

    circular = Circular()
    circular.session = ovolo.InferenceSession(digits, pipeline="native", cost=circular)
    with pytest.raises(ovolo.Error, match="already in use by this thread"):
        circular.session.run(None, {"image": images[:3]})
    # The session is not lost.
    with pytest.raises(ovolo.Error, match="already in use by this thread"):
        circular.session.run(None, {"image": images[:4]})


@pytest.mark.parametrize("answer", [-1.0, float("nan"), "much"])
def test_an_answer_that_is_no_time_is_refused(digits, answer):
    class Wrong:
        def seconds(self, kernel):
            return answer

    with pytest.raises(ovolo.Error, match="the cost model `wrong`"):
        compiled(digits, Wrong())


def test_a_kernel_that_is_not_known_is_named(digits):
    class Ignorant:
        def seconds(self, kernel):
            return None

    with pytest.raises(ovolo.Error, match="has no price"):
        compiled(digits, Ignorant())


def test_what_is_no_price_is_shown_with_the_kernel(digits):
    class Words:
        def seconds(self, kernel):
            return "fast"

    said = r"TypeError: a price is a number of seconds, or None, not 'fast' \(for a kernel of `native\.\S+`\)"
    with pytest.raises(ovolo.Error, match=said):
        ovolo.compile(digits, dims={"N": 1}, cost=Words())


def test_what_has_no_method_is_refused(digits):
    with pytest.raises(TypeError, match="a cost model is a name, or an object with a method `seconds` or `batch`; the"):
        compiled(digits, object())
    with pytest.raises(TypeError, match=r"such as `ByBytes\(\)`, and not the class"):
        compiled(digits, ByBytes)


def test_price_lists_and_a_cost_model_are_not_given_together(digits):
    with pytest.raises(ValueError, match="leave one of them out"):
        ovolo.compile(digits, dims={"N": 1}, cost="flops", costs=["mine.ron"])


def test_a_name_that_is_taken_is_refused(digits):
    class Flops(ByBytes):
        name = "flops"

    with pytest.raises(ovolo.Error, match="two cost models named `flops`"):
        compiled(digits, Flops())


def test_a_session_takes_a_cost_model(digits, images):
    session = ovolo.InferenceSession(digits, cost=ByBytes(), pipeline="native", dims={"N": 2})
    assert session.run(None, {"image": images[:2]})[0].shape == (2, 10)
