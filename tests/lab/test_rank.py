"""Joined comparisons of several data sets: their files, names, and damaged or malicious files."""

import json
from pathlib import Path
from typing import Any

import pytest

from ndformer.framework.errors import DataError
from ndformer.lab import compare_table
from ndformer.lab.compare import Outcome, plan
from ndformer.lab.grid import points
from ndformer.lab.rank import Cell, join
from ndformer.lab.rank_table import Table

CONFIGS = Path(__file__).parents[2] / "configs"


def compared(home, config, values, **more):
    """Make a work dir of tools/compare.py: {encoding: accuracies of seeds 0, 1 ..., None if a run failed}."""
    runs = plan(CONFIGS / f"{config}.py", list(values), range(len(next(iter(values.values())))), home, **more)
    found = []
    for run in runs:
        value = values[run.encoding][run.seed]
        results = dict(test=dict(accuracy=value), val=dict(accuracy=value), minutes=2.0, params=1_500_000)
        found.append(Outcome(run, None, "it broke") if value is None else Outcome(run, results))
    compare_table.write_report(home, "title", "accuracy", runs[0].encoding, found)
    return home


def test_files_of_compare_are_read_and_shared_options_name_the_set(tmp_path):
    some = dict(points=points(["optimizer.lr=1e-3"]), options=["train_cfg.max_epochs=2"], sample=True, amounts=[10])
    a = compared(tmp_path / "a", "mnist_pape", {"NoPE": [0.5, 0.6], "PaPE(m=8)": [0.8, None]}, **some)
    b = compared(tmp_path / "b", "cifar10_pape", {"NoPE": [0.4], "PaPE(m=2)": [0.3]})
    sets = join([a, b / "compare.json"])
    assert list(sets) == ["mnist_pape --sample train_cfg.max_epochs=2 10 per class", "cifar10_pape"]
    first, second = sets.values()
    assert first.metric == "accuracy"
    assert first.cells["PaPE"] == Cell("PaPE(m=8)", {"0": 0.8}, 2.0, 1_500_000, failed={"1": "it broke"})
    assert second.cells["PaPE"] == Cell("PaPE(m=2)", {"0": 0.3}, 2.0, 1_500_000)
    assert first.cells["NoPE"].values == {"0": 0.5, "1": 0.6}


def test_runs_from_other_weights_are_sets_of_their_own(tmp_path):
    alone = compared(tmp_path / "a", "mnist_pape", {"PaPE": [0.5]})
    begun = compared(tmp_path / "b", "mnist_pape", {"PaPE": [0.8]})
    content = json.loads((begun / "compare.json").read_text())
    content["runs"][0]["arguments"][1:1] = ["--weights", "first.pth"]
    (begun / "compare.json").write_text(json.dumps(content))
    sets = join([alone, begun])
    assert list(sets) == ["mnist_pape", "mnist_pape --weights first.pth"]
    assert [one.cells["PaPE"].values for one in sets.values()] == [{"0": 0.5}, {"0": 0.8}]


def test_one_config_on_two_data_sets_is_two_sets(tmp_path):
    """Issue 47: the values of one replaced those of the other."""
    birds, cars = (
        compared(tmp_path / name, "imagefolder_pape", {"NoPE": [value]}, data_root=f"/data/{name}")
        for name, value in (("birds", 0.5), ("cars", 0.8))
    )
    sets = join([birds, cars])
    assert {name: one.cells["NoPE"].values for name, one in sets.items()} == {
        "imagefolder_pape birds": {"0": 0.5},
        "imagefolder_pape cars": {"0": 0.8},
    }
    assert list(join([birds])) == ["imagefolder_pape"]
    Table(join([birds]), "NoPE").write(tmp_path / "out")
    assert list(join([tmp_path / "out", cars])) == ["imagefolder_pape birds", "imagefolder_pape cars"]


def test_comparisons_without_results_are_an_error(tmp_path):
    (tmp_path / "comparison.json").write_text('{"sets": {}}')
    with pytest.raises(DataError, match="no comparison in .* has results"):
        join([tmp_path])


def test_earlier_files_have_only_a_learning_rate(tmp_path):
    options = ["--cfg-options", "a.b=1", "optimizer.lr=0.001", "seed=0"]
    run = dict(arguments=["x/mnist.py", "--encoding", "PaPE", *options], per_class=None, fold=None, rate=0.001)
    (tmp_path / "compare.json").write_text(json.dumps(GOOD | dict(runs=[run], rows=[ROW])))
    assert list(join([tmp_path])) == ["mnist a.b=1"]


def test_two_encodings_of_a_type_on_one_set_keep_their_options(tmp_path):
    a = compared(tmp_path / "a", "mnist_pape", {"PaPE( m=8 )": [0.5], "PaPE(m=2)": [0.8], "ALiBi": [0.1]})
    b = compared(tmp_path / "b", "cifar10_pape", {"PaPE(m=8)": [0.4], "Sincos, PaPE(m=2)": [0.3]})
    first, second = join([a, b]).values()
    assert list(first.cells) == ["PaPE(m=8)", "PaPE(m=2)", "ALiBi"]
    assert list(second.cells) == ["PaPE(m=8)", "Sincos, PaPE"]


def test_a_later_file_adds_and_replaces_encodings_of_a_set(tmp_path):
    a = compared(tmp_path / "a", "mnist_pape", {"NoPE": [0.5], "ALiBi": [0.8]})
    b = compared(tmp_path / "b", "mnist_pape", {"NoPE": [0.6], "Sincos": [0.7]})
    (found,) = join([a, b]).values()
    assert {name: cell.values["0"] for name, cell in found.cells.items()} == dict(NoPE=0.6, ALiBi=0.8, Sincos=0.7)
    (found,) = join([b, a]).values()
    assert found.cells["NoPE"].values == {"0": 0.5}


def test_joined_comparisons_are_read_again(tmp_path):
    a = compared(tmp_path / "a", "mnist_pape", {"NoPE": [0.5, None], "PaPE(m=8)": [0.8, 0.9]})
    b = compared(tmp_path / "b", "cifar10_pape", {"NoPE": [0.4, 0.4], "PaPE(m=2)": [None, None]})
    sets = join([a, b])
    Table(sets, "NoPE").write(tmp_path / "out")
    assert join([tmp_path / "out"]) == sets


def test_the_learning_rate_that_validates_best_on_seed_0_counts(tmp_path):
    run = lambda val, test: dict(val=val, test=test)
    rates = {"0.01": {"0": run(0.8, 0.1)}, "0.004": {"0": run(0.9, 0.99)}}
    rates["0.002"] = {"0": run(0.9, 0.5), "1": run(0.2, 0.6)}  # as good as 0.004, and smaller
    (tmp_path / "start.json").write_text(json.dumps(dict(signs=dict(PaPE=rates))))
    found = join([tmp_path / "start.json"])
    assert found["signs"].cells == dict(PaPE=Cell("PaPE", {"0": 0.5, "1": 0.6}))


GOOD: dict[str, Any] = dict(
    metric="accuracy", rows=[], runs=[dict(arguments=["a.py", "--cfg-options", "seed=0"], per_class=None, fold=None)]
)
ROW: dict[str, Any] = dict(encoding="PaPE", per_class=None, values={"0": 0.5}, minutes=1.0, params=3)
BROKEN = {
    "nothing": "",
    "a list": "[]",
    "a number": "3",
    "deep": "[" * 100_000,
    "not text": b"\xff\xfe",
    "no runs": json.dumps(GOOD | dict(runs=[])),
    "a text for a number": json.dumps(GOOD | dict(rows=[ROW | dict(values={"0": "x"})])),
    "an infinite number": json.dumps(GOOD | dict(rows=[ROW | dict(minutes=float("inf"))])),
    "a list of values": json.dumps(GOOD | dict(rows=[ROW | dict(values=[1])])),
    "rates without a seed 0": json.dumps(dict(a=dict(PaPE={"0.1": {"1": dict(val=1, test=1)}}))),
    "sets of nothing": json.dumps(dict(sets=[1])),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_damaged_file_is_an_error(tmp_path, name):
    path = tmp_path / "compare.json"
    path.write_bytes(BROKEN[name] if isinstance(BROKEN[name], bytes) else BROKEN[name].encode())
    with pytest.raises(DataError, match="is not a file of ndformer compare or ndformer rank") as error:
        join([tmp_path])
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("encoding", ["__import__('os').system('x')", "PaPE(", "-" * 5_000 + "1"])
def test_an_unknown_encoding_is_an_error_and_nothing_is_executed(tmp_path, encoding):
    (tmp_path / "compare.json").write_text(json.dumps(GOOD | dict(rows=[ROW | dict(encoding=encoding)])))
    with pytest.raises(DataError, match="an unknown encoding"):
        join([tmp_path])


def test_missing_files_and_other_metrics_are_errors(tmp_path):
    with pytest.raises(DataError, match="has no compare.json, .* after its first run.* or name another work dir"):
        join([tmp_path])
    with pytest.raises(DataError, match=r"there is no .*x\.json"):
        join([tmp_path / "x.json"])
    for name, metric in (("a", "accuracy"), ("b", "mIoU")):
        (tmp_path / f"{name}.json").write_text(json.dumps(GOOD | dict(rows=[ROW], metric=metric)))
    with pytest.raises(DataError, match="has mIoU of a, another file has accuracy"):
        join([tmp_path / "a.json", tmp_path / "b.json"])


def test_correct_samples_reach_the_cells_of_the_chosen_point_and_damaged_ones_are_an_error(tmp_path):
    run = dict(GOOD["runs"][0], encoding=ROW["encoding"], per_class=ROW["per_class"], fold=None, correct="8:f0")
    runs = [dict(run, seed=seed) for seed in (0, 1)]
    other = dict(runs[0], point={"optimizer.lr": "1"}, correct="8:00")
    path = tmp_path / "compare.json"
    path.write_text(json.dumps(GOOD | dict(rows=[ROW], runs=[*runs, other])))
    (compared,) = join([path]).values()
    (cell,) = compared.cells.values()
    assert cell.correct == {seed: "8:f0" for seed in ROW["values"] if seed in ("0", "1")}
    path.write_text(json.dumps(GOOD | dict(rows=[ROW], runs=[dict(runs[0], correct="9:f0")])))
    with pytest.raises(DataError, match="expected 9 bits, got 8"):
        join([path])
