"""docs/how-to/compare.md: its commands are parsed, and its table has the current format."""

import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from mmengine.config import Config

from ndformer.framework.engine.config.load import load
from ndformer.lab import compare_table
from ndformer.lab.compare import Outcome, Run, plan
from ndformer.lab.friedman import critical_difference
from tests.programs import ROOT
from tools import compare, extrapolate, rank

PAGE = (ROOT / "docs" / "how-to" / "compare.md").read_text()
COMMANDS = [
    shlex.split(line) for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL) for line in block.splitlines()
]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_commands_are_understood(command, monkeypatch, tmp_path):
    monkeypatch.chdir(ROOT)
    ndformer, tool, *arguments = command
    assert ndformer == "ndformer"
    if tool == "compare":
        given = compare.parse(arguments)
        options, sample = given.cfg_options, given.sample
        runs = plan(given.config, given.encodings, given.seeds, tmp_path, given.per_class, options, sample)
        assert len(runs) == len(given.encodings) * len(given.seeds) * len(given.per_class)
    elif tool == "rank":
        assert rank.parse(arguments).baseline
    else:
        assert tool == "extrapolate"
        given = extrapolate.parse(arguments)
        patch = load(given.config if given.checkpoints else "configs/mnist_pape.py").model.modalities.image.patch
        assert not any(side % patch for size in given.sizes for side in np.atleast_1d(size))


def test_ranks_lie_as_far_apart_as_the_page_says():
    far, near = (f"{critical_difference(names, 5):.1f}" for names in (18, 5))
    assert f"Two of 18 encodings must lie {far} ranks apart on 5 sets, two of 5 encodings {near}." in PAGE


def test_the_table_is_what_such_runs_give():
    values = dict(Sincos=(80, 82, 84), PaPE=(90, 91, 92), PaPERI=(89, 91, 92))
    minutes, params = dict(Sincos=2.0, PaPE=2.4, PaPERI=2.3), dict(Sincos=1_190_000, PaPE=1_270_000, PaPERI=1_190_000)
    found = []
    for name, accuracies in values.items():
        for seed, accuracy in enumerate(accuracies):
            run = Run(name, None, seed, Path(name), [], Config(dict(metrics=[dict(type="Accuracy")])))
            results = dict(test=dict(accuracy=accuracy / 100), minutes=minutes[name], params=params[name])
            found.append(Outcome(run, results))
    rows = compare_table.tabulate(found, "accuracy", "Sincos")
    table = compare_table.text("", rows, found, "accuracy", "Sincos")
    for line in table.splitlines():
        assert not line.startswith("|") or line in PAGE.splitlines()
