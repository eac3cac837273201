"""A run of an older version still loads, resumes and gives the same numbers.

tests/fixtures/released holds a run of one epoch, made by the code as it was then: on generated digits, with seed 0. The
JSON files are that code's scores of five digits, and what its own --resume made of the run.
"""

import json
import shutil
from pathlib import Path

import pytest

from ndformer.framework.engine.training import checkpoint
from ndformer.framework.registry import STAND_INS
from tests.programs import run as start
from tools import test as test_tool
from tools import train

RELEASED = Path(__file__).parents[1] / "fixtures" / "released"


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    home = tmp_path_factory.mktemp("released")
    (home / "mnist").mkdir()
    STAND_INS.get("mnist")().write(home / "mnist", 0)
    return home


@pytest.mark.slow
def test_its_checkpoint_is_tested_as_it_was(home, monkeypatch, capsys):
    """Accuracy is at chance after one epoch, so scores are compared."""
    monkeypatch.chdir(home)
    start(test_tool.main, RELEASED / "config.py", RELEASED / "best.pth", "--out", "out.json", "--trust-config")
    assert capsys.readouterr().out.startswith("accuracy 0.1000  mean_accuracy 0.1000  top5 0.5000")
    scores = json.loads((RELEASED / "scores_of_epoch_1.json").read_text())
    for row, then in zip(json.loads((home / "out.json").read_text())[:5], scores, strict=True):
        assert list(row.values())[-10:] == pytest.approx(then, abs=2e-6)
    assert len({tuple(one) for one in scores}) == 5  # they differ from digit to digit


@pytest.mark.slow
def test_it_goes_on_where_it_was_as_if_nothing_had_moved(home, monkeypatch):
    run = home / "run"
    shutil.copytree(RELEASED, run)
    monkeypatch.chdir(home)
    options = ["--cfg-options", "train_cfg.max_epochs=3", "--trust-config"]
    start(train.main, run / "config.py", "--resume", "--work-dir", run, *options)
    expected, state = json.loads((RELEASED / "resumed_to_epoch_3.json").read_text()), checkpoint.load(run / "last.pth")
    assert [h["epoch"] for h in state["history"]] == [1, 2, 3]
    for then, now in zip(expected["history"], state["history"]):
        assert {name: now[name] for name in then} == pytest.approx(then, rel=1e-5)
    assert set(state["model"]) == set(expected["weights"])
    sums = {name: float(value.double().abs().sum()) for name, value in state["model"].items()}
    assert sums == pytest.approx(expected["weights"], rel=1e-4, abs=1e-6)
