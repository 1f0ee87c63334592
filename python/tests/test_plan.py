"""Plans: what was chosen, and why."""

import json
import subprocess
import sys

import numpy as np
import ovolo
import pytest


@pytest.fixture(scope="module")
def plan():
    from conftest import DIGITS

    return ovolo.compile(DIGITS, dims={"N": 1}, pipeline="native", cost="flops", threads=1)


def test_a_plan_runs(plan, digits, images):
    scores, = plan.run({"image": images[:1]})
    same, = ovolo.InferenceSession(digits, cache=False).run(["scores"], {"image": images[:1]})
    np.testing.assert_allclose(scores, same, rtol=1e-4, atol=1e-4)
    assert plan.run({"image": images[:1]}, ["scores"])[0].tolist() == scores.tolist()
    with pytest.raises(ovolo.InvalidArgument, match="needs `image`"):
        plan.run({})


def test_a_plan_explains_its_steps(plan):
    text = plan.explain()
    assert "backend native, implementation" in text
    assert "by " in text and "rules/" in text
    assert f"{len(plan.steps)} steps, estimate" in text
    assert str(plan)
    assert repr(plan).startswith(f"Plan({len(plan.steps)} steps")


def test_a_plan_is_json(plan):
    whole = json.loads(plan.to_json())
    assert whole["steps"] == plan.steps
    assert {"name", "op", "implementation", "layout", "seconds", "rules"} <= plan.steps[0].keys()
    assert plan.seconds == pytest.approx(sum(step["seconds"] for step in plan.steps))
    assert plan.arena == whole["arena"]


def test_a_plan_is_a_frame(plan):
    pandas = pytest.importorskip("pandas")
    frame = plan.frame()
    assert isinstance(frame, pandas.DataFrame)
    assert len(frame) == len(plan.steps)
    assert frame["seconds"].sum() == pytest.approx(plan.seconds)


def test_candidates_and_their_features_are_frames(plan):
    pandas = pytest.importorskip("pandas")
    nodes = plan.nodes()
    assert isinstance(nodes, pandas.DataFrame)
    classes = set(nodes["eclass"])
    assert all(child in classes for children in nodes["children"] for child in children)
    # The cheapest candidate of a class whose candidates read nothing is what the class costs.
    assert nodes.loc["c0.0", "op"].startswith("input") and nodes.loc["c0.0", "cost"] == 0
    features = plan.features()
    assert {"op", "flops", "bytes", "measured", "seconds"} <= set(features.columns)
    assert len(features) > 100 and (features["seconds"] >= 0).all() and features["measured"].isna().all()
    chosen = {step["op"] for step in plan.steps}
    assert chosen <= set(features["op"])


def test_runners_up_are_told(plan):
    runner_ups = plan.runner_ups()
    assert runner_ups and {"value", "chosen", "margin"} <= runner_ups[0].keys()
    assert "runner-up" in plan.explain(runner_up=True)


def test_other_prices_are_supposed(plan):
    assert "with the factors" in plan.what_if({"native.conv*": 1000.0})
    with pytest.raises(ovolo.Error):
        plan.what_if({"native.conv*": -1.0})
    with pytest.raises(TypeError, match="a dictionary from patterns of ops to factors"):
        plan.what_if("native.conv*=2")


def test_a_memory_curve_goes_from_fast_to_small(plan):
    curve = plan.memory_curve()
    sizes = [point["bytes"] for point in curve]
    assert sizes == sorted(sizes, reverse=True)
    with pytest.raises(ovolo.Error):
        plan.memory_curve("moon")
    with pytest.raises(ovolo.Error, match="no backend of the pipeline has a device `cuda:0`"):
        plan.memory_curve("cuda:0")


def test_why_not_tells_of_a_rule(plan):
    assert "phase `" in plan.why_not("map-relu")
    with pytest.raises(ovolo.Error, match="no rule is called `map-rel`, did you mean"):
        plan.why_not("map-rel")


def test_a_plan_is_a_page(plan):
    page = plan.html()
    assert page.lstrip().lower().startswith("<!doctype html>")
    shown = plan._repr_html_()
    assert shown.startswith("<iframe srcdoc=") and "<script" not in shown


def test_the_e_graph_can_be_taken_out(plan):
    graph = json.loads(plan.egraph())
    assert graph["nodes"]
    problem = plan.problem
    assert problem.roots and problem.classes
    assert plan.extraction["proven"]
    assert problem.cost(problem.greedy()) >= plan.extraction["seconds"] * (1 - 1e-9)


def test_a_plan_prices_the_steps_of_another(plan, digits):
    other = ovolo.compile(digits, dims={"N": 1}, pipeline="native", cost="flops", extractor="greedy-tree", threads=1)
    assert sum(plan.estimates(other)) == pytest.approx(other.seconds)
    assert plan.seconds <= other.seconds * (1 + 1e-9)


def test_a_limit_of_memory_holds(digits, plan):
    with pytest.raises(ovolo.Error):
        ovolo.compile(digits, dims={"N": 1}, memory_limit=16)
    size = plan.memory_curve()[-1]["bytes"]
    assert ovolo.compile(digits, dims={"N": 1}, pipeline="native", cost="flops", memory_limit=size).steps


def test_names_are_listed():
    names = ovolo.names()
    assert "cpu" in names["pipeline"] and "flops" in names["cost"] and "exact" in names["extractor"]
    assert ovolo.backends()["native"] is not None


def test_notes_go_to_logging(digits, caplog):
    caplog.set_level("INFO", "ovolo")
    ovolo.compile(digits, dims={"N": 1})
    absent = [name for name, found in ovolo.backends().items() if found is None]
    assert ("onednn" not in absent) or any("onednn" in record.message for record in caplog.records)


def test_an_import_needs_no_package_but_numpy():
    code = "import sys, ovolo; print(*{name.split('.')[0] for name in sys.modules} - sys.stdlib_module_names)"
    bare = "import sys, numpy; print(*{name.split('.')[0] for name in sys.modules} - sys.stdlib_module_names)"
    own, numpys = (set(subprocess.check_output([sys.executable, "-P", "-c", one], text=True).split()) for one in (code, bare))
    assert own - numpys == {"ovolo"}
