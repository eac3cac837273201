"""tools/rank.py on docs/results/data/start.json."""

import json
from pathlib import Path

import pytest

from ndformer.framework.errors import UnknownNameError
from tools import rank

START = Path(__file__).parents[2] / "docs" / "results" / "data" / "start.json"


def test_selected_sets_are_joined_in_order(tmp_path, capsys):
    rank.main([str(START), "--baseline", "PaPE", "--sets", "sign_digits", "mnist_small", "--out", str(tmp_path)])
    content = json.loads((tmp_path / "comparison.json").read_text())
    assert list(content["sets"]) == ["sign_digits", "mnist_small"]
    # the learning rate of docs/results/class-token-and-radius.md
    runs = json.loads(START.read_text())["mnist_small"]["AxialRoPE"]["0.003"]
    cell = content["sets"]["mnist_small"]["cells"]["AxialRoPE"]
    assert cell["values"] == {seed: run["test"] for seed, run in runs.items()}
    report = capsys.readouterr().out
    assert (tmp_path / "comparison.md").read_text() in report
    assert report.endswith("comparison.md, comparison.json, comparison.png\n")


def test_an_unknown_set_is_an_error():
    with pytest.raises(UnknownNameError, match="no comparison has the data set mnist, did you mean 'mnist_small'"):
        rank.main([str(START), "--sets", "mnist"])
