"""Rules, verified from Python."""

import signal
import subprocess
import sys
import time

import ovolo
import pytest
from conftest import bars


def test_shipped_rules_hold():
    found = ovolo.rules.verify(only="map-relu", instances=20)
    assert [one.rule for one in found] == ["map-relu"]
    one, = found
    assert one.holds and one.instances >= 20 and one.file.startswith("rules/")


def test_a_wrong_rule_is_shown_on_a_small_case(tmp_path):
    file = tmp_path / "wrong.ron"
    file.write_text('[Rule(name: "wrong", from: "(sub ?a ?b)", to: "(sub ?b ?a)")]')
    one, = ovolo.rules.verify([file])
    assert one.verdict == "wrong" and not one.holds
    assert one.what and one.case
    said = ovolo.rules.differ(one.case)
    assert said and said == ovolo.rules.differ(_written(tmp_path, one.case))
    same = one.case.replace("sub(b, a)", "sub(a, b)")
    assert same != one.case and ovolo.rules.differ(same) is None
    with pytest.raises(ovolo.Error, match="absent.ovolo"):
        ovolo.rules.differ("absent.ovolo")


def _written(folder, text):
    path = folder / "case.ovolo"
    path.write_text(text)
    return path


def test_a_bar_shows_the_progress():
    Bar = bars()
    found = ovolo.rules.verify(only="algebra", instances=2, progress=Bar)
    bar, = Bar.made
    assert bar.total == bar.done == len(found) > 1 and bar.closed and bar.unit == "rule"

    class Broken(Bar):
        def update(self, count):
            raise RuntimeError("no terminal")

    with pytest.raises(RuntimeError, match="no terminal"):
        ovolo.rules.verify(only="map-relu", instances=2, progress=Broken)


def test_mistakes_in_a_file_are_told(tmp_path):
    file = tmp_path / "broken.ron"
    file.write_text("[Rule(")
    with pytest.raises(ovolo.Error, match="broken.ron"):
        ovolo.rules.verify([file])
    with pytest.raises(ovolo.Error, match="no rule is called|absent"):
        ovolo.rules.verify(only=["absent"])
    with pytest.raises(ovolo.Error, match="at least 1"):
        ovolo.rules.verify(instances=0)


def test_rules_join_a_phase(tmp_path):
    file = tmp_path / "mine.ron"
    file.write_text('[Rule(name: "forget-relu", from: "(relu ?x)", to: "?x")]')
    graph = tmp_path / "graph.ovolo"
    graph.write_text("graph {\n  x: f32[4] = input\n  y = relu(x)\n  z = exp(y)\n  return z\n}\n")
    plan = ovolo.compile(graph, pipeline="native", cost="flops", add=[f"{file}:fuse"])
    assert "relu" not in str(plan) and "relu" in str(ovolo.compile(graph, pipeline="native", cost="flops"))
    with pytest.raises(ovolo.Error, match="no `Rewrite` of the pipeline is called `nowhere`"):
        ovolo.compile(graph, pipeline="native", add=[f"{file}:nowhere"])
    with pytest.raises(TypeError, match="a list of texts"):
        ovolo.compile(graph, add=f"{file}:fuse")


def test_ctrl_c_ends_a_verification():
    """The signal that Ctrl-C sends raises in the call, after the instances that have begun."""
    # Where these tests run in the background of a shell, programs that they start would ignore the signal.
    listens = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    code = f"{listens}; import ovolo; print('begins', flush=True); ovolo.rules.verify(instances=5000)"
    with subprocess.Popen(
        [sys.executable, "-P", "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "begins\n"
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        try:
            # All rules take a quarter of an hour, and some of them minutes.
            _, said = process.communicate(timeout=120)
        finally:
            process.kill()
    assert said.rstrip().endswith("KeyboardInterrupt"), said


def test_an_empty_list_of_files_is_not_the_shipped_rules():
    with pytest.raises(ValueError, match="`files` is an empty list"):
        ovolo.rules.verify([])
