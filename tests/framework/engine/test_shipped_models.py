"""Models that ship with the package load by name anywhere, and their cards have the figures of their results."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ndformer
from ndformer.framework.engine.config.shipped import WEIGHTS, model_names
from ndformer.framework.errors import DataError
from ndformer.framework.quantity import split_unit
from tests.programs import ROOT, run
from tools import predict, show_attention
from tools import test as evaluate

QM9 = ROOT.parent / "shared" / "data" / "qm9"
WATER = dict(numbers=[8, 1, 1], positions=[[0, 0, 0.119], [0, 0.763, -0.477], [0, -0.763, -0.477]])
XYZ = "3\nwater\nO 0 0 0.119\nH 0 0.763 -0.477\nH 0 -0.763 -0.477\n"


def results(name: str) -> dict[str, Any]:
    return json.loads((WEIGHTS / name / "results.json").read_text())


@pytest.mark.parametrize("name", model_names())
def test_a_card_has_the_figures_of_results_json(name: str) -> None:
    card = (WEIGHTS / name / "README.md").read_text()
    rows = re.findall(r"^\| ([^|]+?) \| ([\d.,]+) ([^|]+?) \|", card, re.MULTILINE)
    test = results(name)["test"]
    assert len(rows) == len(ndformer.load(name).classes)
    for target, value, unit in rows:
        exact = test[f"MAE_{target}"]
        digits = len(value.partition(".")[2])
        assert f"{exact:,.{digits}f}" == value
        assert f"{target} ({unit})" in ndformer.load(name).classes


@pytest.mark.parametrize("name", model_names())
def test_weights_are_small_and_name_no_folder_of_a_machine(name: str) -> None:
    assert (WEIGHTS / name / "model.safetensors").stat().st_size < 3e6
    for file in ("config.json", "results.json", "README.md"):
        assert not re.search(r"/(work|tmp|home|root)/", (WEIGHTS / name / file).read_text()), file


def test_molecules_are_predicted_by_name_in_any_folder(tmp_path: Path) -> None:
    (tmp_path / "water.xyz").write_text(XYZ)
    command = [sys.executable, "-m", "ndformer", "predict", "qm9-small", "water.xyz"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    answer: Any = ndformer.load("qm9-small")(WATER)
    for target, value in zip(map(split_unit, answer.class_names), answer.values):
        printed = re.search(rf"\b{target[0]} (-?[\d.]+) {re.escape(target[1])}", run.stdout)
        assert printed is not None
        assert float(printed[1]) == pytest.approx(float(value), rel=0.01)


def test_predictions_do_not_change_if_a_molecule_is_turned_or_moved() -> None:
    model = ndformer.load("qm9-small")
    turn = np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))[0]
    turned = dict(numbers=WATER["numbers"], positions=np.array(WATER["positions"]) @ turn.T + [1.0, -2, 3])
    before, after = (model(molecule).values.numpy() for molecule in (WATER, turned))
    head: Any = model.model.head
    spread = head.spread.numpy()
    assert np.abs((before - after) / spread).max() < 1e-5


def test_a_name_that_is_no_model_is_answered_with_the_nearest() -> None:
    with pytest.raises(DataError, match=r"shipped model \(qm9-small\), got 'qm9-smal', did you mean 'qm9-small'\?"):
        ndformer.load("qm9-smal")


@pytest.mark.parametrize("main", [predict.main, show_attention.main])
def test_a_file_that_is_not_given_is_one_sentence(main: Any, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        run(main, "qm9-small")
    assert end.value.code == 2
    assert capsys.readouterr().err.endswith(": expected a FILE after qm9-small, got none. Give one or more\n")


@pytest.mark.slow
@pytest.mark.skipif(not (QM9 / "qm9.npz").is_file(), reason="QM9 is not here")
def test_the_card_is_reproduced_by_one_command(capsys: pytest.CaptureFixture[str]) -> None:
    run(evaluate.main, "qm9-small", "--data-root", QM9)
    printed = capsys.readouterr().out
    for name, value in results("qm9-small")["test"].items():
        (figure,) = re.findall(rf"{name} ([-\d.]+)", printed)
        assert float(figure) == pytest.approx(value, rel=1e-3, abs=1e-4), name
