"""Faults of a config appear before data is read, and no model is larger than the memory."""

import os

import pytest
import torch

from ndformer.cli.program import config_path
from ndformer.framework.data.dataset import Dataset
from ndformer.framework.engine.building import build_model, rehearse, with_classes
from ndformer.framework.engine.config.load import load
from ndformer.framework.engine.run import train
from ndformer.framework.engine.training.optim import build_optimizer
from ndformer.framework.errors import ConfigError, DataError
from ndformer.framework.registry import DATASETS
from tests.soak.tiny import config, register


@pytest.fixture(scope="module", autouse=True)
def squares():
    register()
    yield
    DATASETS.module_dict.pop("SoakSquares")


def test_heads_that_leave_the_number_of_classes_open_get_it_from_a_checkpoint_or_the_data():
    cfg = config()
    there = cfg.model.head.classes
    assert with_classes(cfg, ["x"]) is cfg
    cfg.model.head.classes = None
    assert with_classes(cfg, ["a", "b"]).model.head.classes == 2
    assert with_classes(cfg).model.head.classes == there
    cfg.model.head = dict(a=dict(type="Classifier"), b=dict(type="Classifier", classes=9))
    heads = with_classes(cfg, ["a: x", "a: y", "b: x"]).model.head
    assert (heads.a.classes, heads.b.classes) == (2, 9)


def spoiled(place, value):
    cfg = config()
    *path, name = place.split(".")
    inside = cfg
    for step in path:
        inside = inside[int(step) if step.isdigit() else step]
    inside[name] = value
    return cfg


@pytest.mark.parametrize(
    "place, value, words",
    [
        ("model.backbone.heads", 3, "dim must be divisible by heads, got dim=16 and heads=3"),
        ("train_cfg.checkpoint_every", "often", "checkpoint_every: expected a number of steps or a text"),
        ("test_dataloader.dataset.transforms", [dict(type="SampleFrames", every=1)], "SampleFrames needs groups"),
        ("optimizer", dict(type="Muon", lr=0.1), "Muon only supports 2D parameters"),
        ("model.backbone.position_dims", 1, "positions must have 1 dimensions, got 2 from"),
        ("optimizer", dict(type="AdamW", lr=0.1, weight_decay=10.0), "sets weights to 0 in one step"),
        ("param_groups", dict(lr_factors={"": 0.0}), "param_groups makes every learning rate 0"),
        ("param_groups", dict(lr_factors=dict(nowhere=0.5)), "expected a part of a parameter's name, got 'nowhere'"),
    ],
)
def test_it_is_told_before_data_is_opened(tmp_path, monkeypatch, place, value, words):
    def opened(*given, **named):
        raise AssertionError("data is opened")

    cfg = spoiled(place, value)
    monkeypatch.setattr(Dataset, "__init__", opened)
    with pytest.raises(ValueError, match=words):
        train(cfg, tmp_path)


def test_frozen_parameters_leave_nothing_to_learn():
    layer = torch.nn.Linear(2, 2).requires_grad_(False)
    with pytest.raises(ValueError, match="all parameters are frozen, so nothing would be learned"):
        build_optimizer(layer, dict(type="SGD", lr=0.1))


def test_a_model_larger_than_the_memory_is_refused_before_it_is_filled(monkeypatch):
    cfg = config()
    assert build_model(cfg)
    monkeypatch.setattr(os, "sysconf", lambda name: 1 if name == "SC_PHYS_PAGES" else 4096)
    with pytest.raises(DataError, match="the model has parameters of more than .* GiB, and this machine a memory of"):
        build_model(cfg)
    monkeypatch.undo()
    assert build_model(cfg)  # nothing is left that counts


def test_samples_of_shipped_datasets_are_packed_in_sizes_that_patches_divide_or_it_is_told():
    cfg = load(config_path("imagefolder_pape"), sample=True)
    rehearse(cfg, build_model(cfg))
    whole = cfg.model.modalities.image.patch
    cfg.model.modalities.image.patch = 7
    with pytest.raises(ConfigError, match=r"dataset.transforms give \d+ x \d+, which patches of 7 x 7"):
        rehearse(cfg, build_model(cfg))
    cfg.model.modalities.image.patch = whole
    cfg.val_dataloader.dataset.transforms.pop()
    with pytest.raises(
        ConfigError, match=r"val_dataloader.dataset.transforms have no Pack, so samples of ImageFolder have no inputs"
    ):
        rehearse(cfg, build_model(cfg))
