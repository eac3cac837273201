"""Grid search: points, folders of their runs, the chosen point and the notes about it."""

import re
from pathlib import Path

import pytest
from mmengine.config import Config

from ndformer.framework.errors import ConfigError
from ndformer.framework.evaluation.accuracy import Accuracy
from ndformer.lab.compare import Outcome, Run, plan
from ndformer.lab.grid import Choice, choose, describe_choices, points

MNIST = Path(__file__).parents[2] / "configs" / "mnist_pape.py"


def of(value, failed="", encoding="PaPE", fold=None, seed=0, **point):
    """Return the outcome of a run with this validation accuracy."""
    cfg = Config(dict(metrics=[dict(type="Accuracy")]))
    run = Run(encoding, None, seed, Path(), [], cfg, fold, {key: str(one) for key, one in point.items()})
    return Outcome(run, None if value is None else dict(val=dict(accuracy=value)), failed)


def test_points_are_the_cross_product_of_the_values():
    found = points(["optimizer.lr=3e-4,1e-3", "model.mix=None, dict(type='Mix')"])
    expected = [(rate, mix) for rate in ("0.0003", "0.001") for mix in ("None", "dict(type='Mix')")]
    assert [tuple(point.values()) for point in found] == expected
    assert points([]) == [{}]


@pytest.mark.parametrize(
    "option, values",
    [
        ("a.b=1e-3,0.001,1e-3", ["0.001"]),  # three spellings of one number
        ("a.b=[1,3],[1,5]", ["[1,3]", "[1,5]"]),
        ("a.b=[1,3]", ["[1,3]"]),  # a list is one value
        ("a.b=(1, 2)", ["(1, 2)"]),
        ("a.b=spread,auto", ["spread", "auto"]),
        ("a.b=data/set", ["data/set"]),
        ("a.b=0.12345678,1.0,2", ["0.12345678", "1", "2"]),
    ],
)
def test_values_are_separated_by_commas_outside_of_brackets(option, values):
    assert [point["a.b"] for point in points([option])] == values


def test_a_point_reaches_the_config_and_the_name_of_the_folder():
    some = points(["optimizer.lr=0.0005,1e-3", "model.backbone.depth=2"])
    runs = plan(MNIST, ["PaPE(m=8)"], [0], Path("home"), points=some)
    assert [(run.cfg.optimizer.lr, run.cfg.model.backbone.depth) for run in runs] == [(0.0005, 2), (0.001, 2)]
    assert runs[1].folder == Path("home/PaPE_m=8_lr=0.001_model.backbone.depth=2_seed0")
    (run,) = plan(MNIST, ["PaPE"], [0], Path("home"), points=points(["optimizer.lr=1e-3"]))
    assert run.folder.name == "PaPE_lr=0.001_seed0"
    assert str(run) == "PaPE, optimizer.lr=0.001, seed 0"


def test_runs_of_two_points_never_share_a_folder():
    with pytest.raises(ConfigError, match="would share a folder"):
        plan(MNIST, ["PaPE"], [0], Path("home"), points=points(["model.backbone.encoding.init_radius=[1,3],[1, 3]"]))


def test_the_finished_point_that_validates_best_is_chosen():
    some = [of(0.7, x=1), of(0.9, x=2), of(0.9, x=3), of(1.0, "diverged", x=4), of(None, "it broke", x=5)]
    some += [of(float("nan"), x=6), of(0.5, encoding="NoPE", x=1)]
    assert choose(some) == {
        ("PaPE", None): Choice(dict(x="2"), 0.9, [dict(x="3")], []),
        ("NoPE", None): Choice(dict(x="1"), 0.5, [], []),
    }
    assert choose(some[3:6]) == {}


def test_with_several_seeds_the_mean_counts_and_a_point_with_a_missing_seed_does_not():
    values = {1: (0.9, 0.5), 2: (0.8, 0.7), 3: (1.0, None)}
    some = [of(value, seed=seed, x=x) for x, both in values.items() for seed, value in zip((100, 101), both)]
    assert choose(some)["PaPE", None].point == dict(x="2")
    assert "validated best on seeds 100 and 101. Test" in describe_choices(some)


def test_the_lowest_value_is_chosen_if_lower_is_better(monkeypatch):
    """Issue 44.1: the point with the highest error was chosen."""
    monkeypatch.setattr(Accuracy, "better", "lower")
    monkeypatch.setattr(Accuracy, "unit", "px")
    some = [of(0.7, x=1), of(0.2, x=2), of(0.2, x=3), of(float("nan"), x=4)]
    assert choose(some) == {("PaPE", None): Choice(dict(x="2"), 0.2, [dict(x="3")], [])}
    assert "x=2 and x=3 validated alike, 0.2000 px: the first" in describe_choices(some)


def test_an_end_of_the_grid_is_reported_for_numbers_only():
    some = [of(value, x=x, y=y, z=1) for x, y, value in [(1, "a", 0.7), (2, "b", 0.9), (10, "a", 0.8)]]
    assert choose(some)["PaPE", None].edges == []
    some.append(of(0.95, x=10, y="b", z=1))
    assert choose(some)["PaPE", None].edges == ["x=10 is the largest tried"]
    some.append(of(None, "it broke", x=11, y="b", z=1))  # a larger value failed
    assert choose(some)["PaPE", None].edges == []


def test_notes_name_ties_ends_and_failures():
    some = [of(0.7, fold=1, x=1), of(0.9, fold=1, x=2), of(0.9, fold=1, x=3), of(None, "no", "NoPE", fold=1, x=1)]
    report = describe_choices(some)
    assert report.startswith("x of 1, 2, 3: each encoding has the values that validated best on seed 0, fold 1. Test")
    assert "- PaPE: x=2 and x=3 validated alike, 0.9000: the first in the grid is used." in report
    assert "- NoPE: no run of the grid has finished" in report
    assert not re.search("largest|smallest", report)
    assert "on seed 0, fold 1, with a.b=1 c=2. Test" in describe_choices(some, ["a.b=1", "c=2"])
    two = describe_choices([some[0], some[2]])
    assert "- PaPE: x=3 is the largest tried. A wider grid may have a better one." in two
