"""Runs of an earlier comparison, which count as done on another machine."""

import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from ndformer.framework.errors import DataError
from ndformer.lab import compare_table, earlier_runs, paired
from ndformer.lab.compare import Outcome, check_folder, outcome, plan
from tests.programs import CONFIGS

MNIST = CONFIGS / "mnist_pape.py"
RESULTS = dict(test=dict(accuracy=0.5), val=dict(accuracy=0.6), minutes=1.0, params=10)
CORRECT = "4:a0:0123456789abcdef"


def write(home, runs):
    """Write the comparison of runs, of which those with results count as done."""
    home.mkdir(exist_ok=True)
    compare_table.write_report(home, "made", "accuracy", runs[0].encoding, [outcome(run) for run in runs])


def finish(run, accuracy):
    run.folder.mkdir(parents=True, exist_ok=True)
    (run.folder / "results.json").write_text(json.dumps(RESULTS | dict(test=dict(accuracy=accuracy))))
    (run.folder / paired.FILE).write_text(json.dumps(CORRECT))


def test_runs_with_the_same_settings_are_taken_over_and_all_others_stay(tmp_path):
    first = plan(MNIST, ["Sincos", "NoPE"], [0, 1], tmp_path / "one", data_root="here")
    for i, run in enumerate(first[:3]):
        finish(run, 0.1 * i)
    write(tmp_path / "one", first)
    earlier_runs.add(tmp_path / "one", tmp_path / "results")

    # on another machine, with its data elsewhere, more encodings and fewer seeds
    second = plan(MNIST, ["PaPE", "NoPE", "Sincos"], [0], tmp_path / "two", data_root="there")
    assert earlier_runs.take_over(second, tmp_path / "results") == 2
    assert [run.done for run in second] == [False, True, True]
    assert [check_folder(run) for run in second] == ["", "", ""]
    assert outcome(second[1]) == Outcome(second[1], RESULTS | dict(test=dict(accuracy=0.1)))
    assert paired.load(second[1].folder) == CORRECT
    assert earlier_runs.take_over(second, tmp_path / "results") == 0

    finish(second[0], 0.9)
    write(tmp_path / "two", second)
    earlier_runs.add(tmp_path / "two", tmp_path / "results")
    content = json.loads((tmp_path / "results" / "compare.json").read_text())
    assert [row["encoding"] for row in content["rows"]] == ["PaPE", "NoPE", "Sincos"]
    assert [(run["encoding"], run["seed"]) for run in content["earlier_runs"]] == [("Sincos", 1)]
    third = plan(MNIST, ["PaPE", "Sincos", "NoPE"], [0, 1], tmp_path / "three")
    assert earlier_runs.take_over(third, tmp_path / "results") == 4
    assert str(tmp_path) not in json.dumps([run["folder"] for run in content["runs"]])


def test_two_comparisons_that_add_at_once_keep_the_runs_of_both(tmp_path, monkeypatch):
    for name in ("Sincos", "NoPE"):
        (run,) = plan(MNIST, [name], [0], tmp_path / name)
        finish(run, 0.5)
        write(tmp_path / name, [run])
    read, entries = threading.Event(), earlier_runs._entries

    def slow(folder: Path) -> list[dict[str, Any]]:
        before = entries(folder)
        read.set()
        time.sleep(0.2)
        return before

    monkeypatch.setattr(earlier_runs, "_entries", slow)
    first = threading.Thread(target=earlier_runs.add, args=(tmp_path / "Sincos", tmp_path / "results"))
    first.start()
    read.wait(10)
    earlier_runs.add(tmp_path / "NoPE", tmp_path / "results")
    first.join()
    content = json.loads((tmp_path / "results" / "compare.json").read_text())
    assert [run["encoding"] for run in [*content["runs"], *content["earlier_runs"]]] == ["NoPE", "Sincos"]


def test_other_settings_and_failed_runs_are_trained_again(tmp_path):
    runs = plan(MNIST, ["Sincos", "NoPE"], [0], tmp_path / "one")
    finish(runs[0], 0.5)
    outcomes = [outcome(runs[0]), Outcome(runs[1], RESULTS, "diverged: its training loss is nan from epoch 2 on")]
    compare_table.write_report(tmp_path / "one", "made", "accuracy", "Sincos", outcomes)
    longer = plan(MNIST, ["Sincos"], [0], tmp_path / "two", options=["train_cfg.max_epochs=99"])
    assert earlier_runs.take_over(longer, tmp_path / "one") == 0
    again = plan(MNIST, ["Sincos", "NoPE"], [0], tmp_path / "three")
    assert earlier_runs.take_over(again, tmp_path / "one") == 1
    assert earlier_runs.take_over(again, tmp_path / "nothing") == 0


@pytest.mark.parametrize("text", ["[]", "{}", '{"runs": [{"results": null, "failed": ""}]}', '{"runs": 3}'])
def test_a_file_without_settings_is_refused(tmp_path, text):
    (tmp_path / "compare.json").write_text(text)
    runs = plan(MNIST, ["NoPE"], [0], tmp_path / "one")
    with pytest.raises(DataError, match=r"--onto: expected .* to have runs with their settings"):
        earlier_runs.take_over(runs, tmp_path)
