"""tools/check_modality.py: a correct module passes, and each fault is one sentence."""

import sys

import pytest

from ndformer.framework.evaluation.accuracy import Accuracy
from ndformer.framework.registry import DATASETS, HEADS, MODALITIES
from tools import check_modality

GOOD = """
import numpy as np
import torch
from ndformer.framework.adapter import Adapter
from ndformer.framework.answers.label import Label
from ndformer.framework.data import Dataset
from ndformer.framework.heads.head import Head
from ndformer.framework.evaluation.accuracy import Accuracy
from ndformer.framework.registry import DATASETS, HEADS, MODALITIES
from ndformer.framework.tokens import TokenSet, Where

@MODALITIES.register_module()
class Tones(Adapter):
    def __init__(self, dim: int, wide: int = 4):
        super().__init__()
        self.project = torch.nn.Linear(wide, dim)

    def forward(self, tones):
        places = torch.arange(float(tones.shape[1]))[None, :, None]
        return TokenSet(self.project(tones), Where(places))

@DATASETS.register_module()
class Hums(Dataset):
    def index(self, split):
        self.classes = ["low", "high"]
        return list(range(20)), np.arange(20) % 2

    def read(self, number):
        tones = torch.full((3, 4), float(number))
        return dict(inputs=dict(tones=tones), data_sample=dict(label=number % 2))

@HEADS.register_module()
class Ears(Head):
    def __init__(self, dim: int, classes: int):
        super().__init__()
        self.classes, self.linear = classes, torch.nn.Linear(dim, classes)

    def targets(self, data_samples, device):
        return torch.tensor([sample["label"] for sample in data_samples])

    def loss(self, tokens, targets):
        return dict(loss=torch.nn.functional.cross_entropy(self.linear(tokens.features.mean(1)), targets))

    def predict(self, tokens, data_samples):
        scores = self.linear(tokens.features.mean(1)).softmax(-1)
        return [Label(sample=sample, scores=one) for sample, one in zip(data_samples, scores)]
"""


@pytest.fixture
def check(tmp_path, monkeypatch, capsys):
    """Return a function that checks a module and returns the printed lines and the exit code."""
    registries = [DATASETS, HEADS, MODALITIES]
    known = [dict(registry.all()) for registry in registries]

    def checked(code, *arguments):
        (tmp_path / "hums.py").write_text(code)
        try:
            check_modality.main([str(tmp_path / "hums.py"), *arguments])
            status = 0
        except SystemExit as end:
            status = end.code
        return capsys.readouterr().out.splitlines(), status

    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield checked
    sys.modules.pop("hums", None)
    for registry, names in zip(registries, known):
        registry.module_dict.clear()
        registry.module_dict.update(names)


def test_what_keeps_its_promises_passes(check):
    lines, status = check(GOOD, "Tones.wide=4")
    assert (len(lines), status) == (8, 0)
    assert [line[:4] for line in lines] == ["pass"] * 3 + ["skip"] + ["pass"] * 4  # no Pack, so no pictures
    assert "20 of 2 classes, with tones" not in lines[0]  # a tenth is held out
    assert "18 of 2 classes, with tones" in lines[0]


@pytest.mark.parametrize(
    "good, bad, name, sentence",
    [
        ("torch.full((3, 4), float(number))", "torch.rand(3, 4)", "same seed", "sample 0 has another tones when it is"),
        ("data_sample=dict(label=number % 2)", "label=number % 2", "samples are read", "a sample has no `data_sample`"),
        ("self.project(tones), Where(places))", "self.project(tones)[..., :5], Where(places))", "tokens",
         "Tones gave features (2, 3, 5) of 2 samples, which are (2, N, 32)"),
        ("Where(places)", "Where(places / 0)", "tokens", "finite"),
        ("class Tones(Adapter):", "class Tones(Adapter):\n    axes = ('row', 'column')\n", "tokens",
         "Tones.axes names each axis of its positions, got 2 names for 1 dimensions. Name 1."),
        ("self.project(tones), W", "self.project(tones - tones.mean()), W", "alone", "where another is in the batch"),
        ("self.classes, self.linear =", "self.spare = torch.nn.Linear(2, 2); self.classes, self.linear =", "learns",
         "Ears.spare.weight gets no gradient"),
        ("[Label(sample=sample, scores=one) for sample, one in zip(data_samples, scores)]", "list(scores)", "answers",
         "predict() gives an Answer for each of 2 samples, got Tensor, Tensor"),
    ],
)  # fmt: skip
def test_what_is_broken_is_one_sentence(check, good, bad, name, sentence):
    assert good in GOOD
    lines, status = check(GOOD.replace(good, bad))
    line = next(line for line in lines if line.startswith("FAIL"))
    assert status == 1
    assert line is lines[-1]  # what is behind it is not blamed
    assert line[6:].startswith(name)
    assert sentence in line


def test_an_adapter_is_told_what_stands_beside_its_inputs(check):
    adapter = GOOD.replace(
        "def forward(self, tones):", "extra_inputs = ('pitch',)\n\n    def forward(self, tones, pitch):"
    )
    adapter = adapter.replace("inputs=dict(tones=tones)", "inputs=dict(tones=tones, pitch=torch.ones(3, 4))")
    lines, status = check(adapter.replace("self.project(tones), W", "self.project(tones * pitch), W"))
    assert (len(lines), status) == (8, 0), lines[-1]


def test_an_adapter_with_a_batch_norm_is_tried_as_it_is_evaluated(check):
    norm = "class Norm(torch.nn.BatchNorm1d):\n    def forward(self, x):\n        return super().forward(x.mT).mT\n\n"
    code = GOOD.replace("@MODALITIES", norm + "@MODALITIES", 1)
    lines, status = check(code.replace("Linear(wide, dim)", "Sequential(torch.nn.Linear(wide, dim), Norm(dim))"))
    assert (len(lines), status) == (8, 0), lines[-1]


def test_a_metric_that_does_not_say_which_values_are_better_is_one_sentence(check, monkeypatch):
    monkeypatch.setattr(Accuracy, "better", None)
    lines, status = check(GOOD)
    assert status == 1
    assert lines[-1].startswith("FAIL  answers")
    assert 'got no better. Write better = "higher" or "lower"' in lines[-1]
