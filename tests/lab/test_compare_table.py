"""The table of a comparison: means, intervals, paired gains and notes; as text, JSON and picture."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from mmengine.config import Config

from ndformer.lab import compare_table, markdown, paired
from ndformer.lab.compare import Outcome, Run, plan

CONFIGS = Path(__file__).parents[2] / "configs"
MNIST = CONFIGS / "mnist_pape.py"
METRIC = dict(type="Accuracy")


def outcomes(values, metric="accuracy", **more):
    """Return outcomes from {(encoding, amount): accuracies of seeds 0, 1 ..., None if one failed}."""
    found = []
    for (encoding, amount), accuracies in values.items():
        for seed, accuracy in enumerate(accuracies):
            run = Run(encoding, amount, seed, Path(f"{encoding}{amount}_{seed}"), [], Config(dict(metrics=[METRIC])))
            results = dict(test={metric: accuracy}, minutes=2.0, params=1_500_000, **more)
            found.append(Outcome(run, None, "it broke") if accuracy is None else Outcome(run, results))
    return found


PLAIN = {
    ("Sincos", None): [0.80, 0.82, 0.84],
    ("PaPE", None): [0.90, 0.91, 0.92],
    ("PaPERI", None): [0.89, 0.91, 0.92],
    ("ALiBi", None): [None, 0.85, 0.86],
}


def there(summary):
    assert summary is not None
    return summary


def test_rows_have_means_intervals_and_gains_paired_by_seed():
    rows = {row.encoding: row for row in compare_table.tabulate(outcomes(PLAIN), "accuracy", "Sincos")}
    assert list(rows) == ["Sincos", "PaPE", "PaPERI", "ALiBi"]
    pape, alibi = rows["PaPE"], rows["ALiBi"]
    assert there(pape.summary).mean == pytest.approx(0.91)
    assert there(pape.summary).half == pytest.approx(4.302653 * 0.01 / 3**0.5, rel=1e-6)
    assert there(pape.gain).mean == pytest.approx(0.09)
    assert there(pape.gain).sd == pytest.approx(0.01)  # 0.10, 0.09, 0.08
    assert rows["Sincos"].gain is None
    assert (there(alibi.summary).n, there(alibi.gain).n) == (2, 2)
    assert there(alibi.gain).mean == pytest.approx((0.03 + 0.02) / 2)
    assert (pape.minutes, pape.params) == (2.0, 1_500_000)


def test_an_encoding_that_is_not_worse_by_the_paired_test_is_not_significantly_different():
    """Issue 44.11: a star beside such means read as "significant"."""
    rows = compare_table.tabulate(outcomes(PLAIN), "accuracy", "Sincos")
    assert [row.may_be_best for row in rows] == [False, True, True, None]  # two runs of ALiBi: too few
    table = compare_table.text("title", rows, outcomes(PLAIN), "accuracy", "Sincos")
    lines = {line.split("|")[1].strip(): line for line in table.splitlines() if line.startswith("|")}
    expected = dict(Sincos="worse", PaPE="best", PaPERI="n.s.", ALiBi="-")
    assert {name: line.split("|")[6].strip() for name, line in lines.items() if name in expected} == expected
    assert "91.00 |" in table
    assert not re.search(r"(?<!\*)\*(?!\*)", table)
    assert "n.s.: no significant difference" in table
    assert "88.52 to 93.48" in table
    assert "| runs: 85.00, 86.00 |" in lines["ALiBi"]
    assert "+2.50 |" in lines["ALiBi"]
    assert "Fewer than 3 seeds are too few seeds for an interval" in table
    assert "+9.00 ± 2.48" in table
    assert "1 of 12 runs are missing:\n\n- ALiBi, seed 0: it broke" in table


def test_encodings_with_one_common_seed_are_not_called_alike(tmp_path):
    """Seeds 0 to 2 at 91 % and 2 to 4 at 11 % had "no significant difference"; with test samples they are compared."""
    accuracies = {"A": [0.90, 0.91, 0.92, None, None], "B": [None, None, 0.10, 0.11, 0.12]}
    runs = outcomes({(name, None): values for name, values in accuracies.items()})
    rows = compare_table.tabulate(runs, "accuracy", "A")
    assert [row.may_be_best for row in rows] == [True, None]
    table = compare_table.text("", rows, runs, "accuracy", "A")
    assert "- A has the highest mean; too few seeds to judge: B." in table
    assert "paired by seed" in table
    for one in runs:
        one.run.__dict__["folder"] = tmp_path / one.run.folder
        one.run.folder.mkdir()
        if one.results:
            paired.record(one.run.folder, np.arange(100) < round(100 * one.results["test"]["accuracy"]))
    rows = compare_table.tabulate(runs, "accuracy", "A")
    assert [row.may_be_best for row in rows] == [True, False]
    assert "Gains are paired by test sample" in compare_table.text("", rows, runs, "accuracy", "A")


def test_worse_than_the_best_takes_the_test_samples_into_account(tmp_path):
    """Issue 47: three seeds with nearly equal accuracies on 100 test samples were "significantly worse"."""
    found = []
    for name, wrong in (("A", 20), ("B", 25)):
        for seed in range(3):
            run = Run(name, None, seed, tmp_path / f"{name}_{seed}", [], Config(dict(metrics=[METRIC])))
            run.folder.mkdir()
            correct = np.arange(100) >= wrong + seed % 2 if name == "A" else np.arange(100)[::-1] >= wrong + seed % 2
            paired.record(run.folder, correct)
            found.append(Outcome(run, dict(test=dict(accuracy=float(correct.mean())), minutes=1.0, params=10)))
    best, other = compare_table.tabulate(found, "accuracy", "A")
    high, low = there(best.summary), there(other.summary)
    assert high.mean - (high.half or 0) > low.mean + (low.half or 0)  # the intervals of the means do not overlap
    assert (there(other.gain).half or 0) > 0.1  # the two are right on other samples
    assert other.may_be_best


def test_worse_than_the_best_is_corrected_for_all_pairs():
    """The data choose the best: corrected for its own gains alone, equal encodings were "worse" in 12 % of tables."""
    behind = [0.896, 0.8875, 0.8975, 0.8865, 0.891]
    values = {("A", None): [0.9] * 5, ("B", None): behind, ("C", None): [0.88, 0.91, 0.89, 0.91, 0.90]}
    rows = compare_table.tabulate(outcomes(values), "accuracy", "A")
    p = there(rows[1].gain).p
    assert p is not None
    assert 0.05 / 3 < p < 0.05 / 2
    assert [row.may_be_best for row in rows] == [True, True, True]


def test_seeds_of_one_fold_are_one_value_of_a_row():
    values = {("A", None): [0.9, 0.8, 0.7, 0.92, 0.82, 0.72]}
    runs = outcomes(values)
    for place, one in enumerate(runs):
        one.run.__dict__.update(seed=place // 3, fold=place % 3)
    (row,) = compare_table.tabulate(runs, "accuracy", "A")
    assert len(row.values) == 6
    summary = there(row.summary)
    assert (summary.n, summary.mean, summary.sd) == pytest.approx((3, 0.81, 0.1))


def test_a_metric_that_is_undefined_in_one_run_has_no_mean():
    found = outcomes({("A", None): [float("nan"), 0.8, 0.9], ("B", None): [0.7, 0.8, 0.9]})
    rows = compare_table.tabulate(found, "accuracy", "B")
    assert "nan" in compare_table.text("", rows, found, "accuracy", "B")


def test_where_lower_values_are_better_the_lowest_mean_is_the_best(tmp_path):
    """Issue 44.1: the highest error was the best, as "100 x mean %", and gains had the wrong sign."""
    values = {("A", None): [5.0, 5.1, 5.2], ("B", None): [0.40, 0.45, 0.50], ("C", None): [0.41, 0.44, 0.53]}
    quantities = dict(error=dict(better="lower", unit="px", decimals=2))
    found = outcomes(values, "error", quantities=quantities)
    rows = compare_table.tabulate(found, "error", "A")
    assert [row.may_be_best for row in rows] == [False, True, True]
    assert there(rows[1].gain).mean == pytest.approx(4.65)
    table = compare_table.write_report(tmp_path, "title", "error", "A", found)
    assert "| error px |" in table
    assert "0.45" in table
    assert "+4.65 ± 0.12" in table
    assert "in px, positive where the value is lower" in table
    assert "the lowest mean" in table
    assert json.loads((tmp_path / "compare.json").read_text())["quantity"] == quantities["error"]
    assert "error 5.00 px" in compare_table.line(found[0], "error", 0.0)


def test_each_amount_of_data_is_compared_separately():
    values = {("A", 50): [0.9, 0.91, 0.92], ("B", 50): [0.5, 0.51, 0.52], ("A", 10): [0.1, 0.2], ("B", 10): [0.3, 0.31]}
    rows = compare_table.tabulate(outcomes(values), "accuracy", "A")
    assert [(row.per_class, row.encoding) for row in rows] == [(10, "A"), (10, "B"), (50, "A"), (50, "B")]
    assert [row.may_be_best for row in rows] == [None, None, True, False]
    assert there(rows[3].gain).mean == pytest.approx(-0.4)


def test_runs_whose_samples_the_seed_draws_are_paired_by_seed(tmp_path):
    """The accuracies of seeds differ by 5 points, the gains by less than one."""
    found, correct = [], {"A": {}, "B": {}}
    for one in outcomes({("A", 10): [0.70, 0.75, 0.80], ("B", 10): [0.72, 0.775, 0.818]}):
        run = replace(one.run, folder=tmp_path / one.run.folder)
        run.folder.mkdir()
        right = np.arange(1000) < round(1000 * there(one.results)["test"]["accuracy"])
        correct[run.encoding][run.seed] = right
        paired.record(run.folder, right)
        found.append(replace(one, run=run))
    _, row = compare_table.tabulate(found, "accuracy", "A")
    expected = there(paired.paired_gain(correct["B"], correct["A"], by_seed=True))
    assert there(row.gain).half == pytest.approx(expected.half)
    assert expected.half < there(paired.paired_gain(correct["B"], correct["A"])).half / 4


def test_an_encoding_without_any_result_keeps_its_row():
    values = {("A", None): [0.9, 0.8], ("B", None): [None, None]}
    rows = compare_table.tabulate(outcomes(values), "accuracy", "B")
    assert (rows[1].summary, rows[0].gain) == (None, None)
    assert re.search(r"\| B +\| 0 \| +- \|", compare_table.text("", rows, outcomes(values), "accuracy", "B"))


def test_generated_samples_and_validation_on_the_test_set_are_noted():
    found = outcomes({("A", None): [0.9]}, sample=True, val_is_test=True, test_is_val=True)
    table = compare_table.text("", compare_table.tabulate(found, "accuracy", "A"), found, "accuracy", "A")
    assert "generated stand-in" in table
    assert "val_is_test" in table
    assert "The data has no test split, so its val split is the test set." in table  # issue 44.4


@pytest.mark.parametrize("amounts", [[None], [10, 100]])
def test_a_report_has_json_text_and_picture(tmp_path, amounts):
    values = {(name, amount): [0.8, 0.9, None] for name in ("A", "B") for amount in amounts}
    table = compare_table.write_report(tmp_path / "new", "title", "accuracy", "A", outcomes(values))
    content = json.loads((tmp_path / "new" / "compare.json").read_text())
    assert (tmp_path / "new" / "compare.md").read_text() == table
    assert (tmp_path / "new" / "compare.png").read_bytes().startswith(b"\x89PNG")
    assert [row["summary"]["n"] for row in content["rows"]] == [2] * 2 * len(amounts)
    assert content["runs"][2]["failed"] == "it broke"
    assert content["runs"][0]["results"]["test"] == dict(accuracy=0.8)


def test_tables_are_aligned_markdown():
    assert markdown.table(["name", "n"], [["a", "1"], ["longer", "22"]]).splitlines() == [
        "| name   |  n |",
        "|--------|---:|",
        "| a      |  1 |",
        "| longer | 22 |",
    ]


def test_the_table_has_the_position_of_each_class_token(tmp_path):
    """Issue 44.2: in the center PaPE has 15 to 38 points more, and no table said so."""
    runs = plan(MNIST, ["Sincos", "PaPE(m=8)", "ALiBi"], [0], tmp_path)
    found = [Outcome(run, dict(test=dict(accuracy=0.5), minutes=1.0, params=10)) for run in runs]
    rows = compare_table.tabulate(found, "accuracy", "Sincos")
    line = "Position of the class token (`class_at`): nowhere with Sincos, ALiBi; center with PaPE(m=8)."
    assert line in compare_table.text("", rows, found, "accuracy", "Sincos").splitlines()
    points = plan(CONFIGS / "modelnet40_plain_pape.py", [None], [0], tmp_path)
    assert points[0].class_token == ""
    without = plan(MNIST, [None], [0], tmp_path, options=["model.modalities.image.class_token=False"])
    assert without[0].class_token == ""


def test_each_fold_is_a_run_and_the_mean_is_over_all(tmp_path):
    runs = plan(CONFIGS / "ucf101_pape.py", [None], [0], tmp_path, folds=[1, 2, 3])
    assert [run.folder.name for run in runs] == ["run_fold1_seed0", "run_fold2_seed0", "run_fold3_seed0"]
    assert str(runs[1]) == "PaPE(m=50), seed 0, fold 2"
    for fold, run in enumerate(runs, 1):
        assert {run.cfg[f"{split}_dataloader"].dataset.fold for split in ("train", "val", "test")} == {fold}
    results = [dict(test=dict(accuracy=x), minutes=1.0, params=1) for x in (0.5, 0.6, 0.7)]
    (row,) = compare_table.tabulate(list(map(Outcome, runs, results)), "accuracy", runs[0].encoding)
    assert there(row.summary).n == 3
    assert there(row.summary).mean == pytest.approx(0.6)
