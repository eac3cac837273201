"""Regression on point clouds: runs take the names of targets from the data, and refuse others."""

from typing import Any, cast

import numpy as np
import pytest
import torch
from mmengine.config import Config

from ndformer.contract.parts import Parts, answers
from ndformer.framework.answers.values import Values
from ndformer.framework.data.dataset import Dataset
from ndformer.framework.engine.building import build_model, with_targets
from ndformer.framework.engine.config import saved
from ndformer.framework.engine.run import train
from ndformer.framework.engine.training.evaluate import LINE, as_line
from ndformer.framework.errors import ConfigError
from ndformer.framework.evaluation.regression import RegressionError
from ndformer.framework.registry import DATASETS
from tests.soak import tiny

NAMES = ["length (m)", "mass (g)"]


class Rods(Dataset):
    """Clouds of rods with a length in meters and a mass in grams, which is unknown for some."""

    answer = "Values"
    splits = ("train", "val", "test")

    def index(self, split: str) -> tuple[list[Any], np.ndarray]:
        self.classes = [*NAMES]
        count = 24 if split == "train" else 8
        return [f"{split} {i}" for i in range(count)], np.zeros(count, np.int64)

    def read(self, record: str) -> dict[str, Any]:
        rng = np.random.default_rng(list(record.encode()))
        length = rng.uniform(1, 3)
        points = (rng.uniform(-1, 1, (20, 3)) * [length, 0.1, 0.1]).astype(np.float32)
        mass = np.nan if record.endswith("1") else 1000 * length
        return dict(points=points, targets=np.array([length, mass]), path=record)


@pytest.fixture(scope="module", autouse=True)
def rods():
    DATASETS.get("CIFAR10")  # registers the other datasets first
    DATASETS.register_module(module=Rods)
    yield
    DATASETS.module_dict.pop("Rods")


def config(metric: Any = None) -> Config:
    cfg = tiny.config(batch=8, metrics=[metric or dict(type="RegressionError")])
    cfg.train_cfg.max_epochs = 1
    cfg.model.modalities = dict(points=dict(type="PointPatches", centers=4, neighbors=4, unit=0.1, features=0))
    cfg.model.backbone.position_dims = 3
    cfg.model = dict(cfg.model, head=dict(type="Regressor"), mix=None)
    for split in ("train", "val", "test"):
        place = dict(type="Rods", data_root=".", split=split, transforms=[dict(type="PackPoints", features=())])
        cfg[f"{split}_dataloader"].dataset = place
    return cfg


def test_a_run_on_clouds_names_its_errors_by_the_targets_of_the_data(tmp_path, capsys):
    results = train(config(), tmp_path / "run")
    assert f"metrics.0.targets is {NAMES}, from the data" in capsys.readouterr().out
    assert results["main_metric"] == "standardized_MAE"
    assert results["quantities"]["MAE_mass"]["unit"] == "g"
    assert results["test"]["MAE_mass"] > 30 * results["test"]["MAE_length"] > 0
    assert saved.read(tmp_path / "run" / "config.json")["metrics"][0]["targets"] == NAMES
    cfg = config()
    cfg.train_cfg.max_epochs = 2
    assert train(cfg, tmp_path / "run", resume=True)["epochs"] == 2


def test_lines_of_a_log_end_after_the_main_values():
    targets = [f"t{i} (m)" for i in range(12)]
    metric, rng = RegressionError(targets), np.random.default_rng(0)
    truth = rng.standard_normal((5, 12))
    for row in truth:
        sample = dict(targets=row)
        metric.process(None, [Values(sample=sample, values=torch.from_numpy(row + 1), spread=torch.ones(12))])
    values = metric.compute_metrics(metric.results)
    quantities = {name: metric.quantity(name) for name in values}
    line = as_line(values, quantities, LINE)
    assert line.startswith("standardized_MAE 1.0000  MAE_t0 1.0000 m  ")
    assert line.endswith("  MAE_t11 1.0000 m  and 24 more")
    assert as_line(values, quantities).endswith(f"R2_t11 {values['R2_t11']:.4f}")
    assert len(values) == 37
    assert "more" not in as_line(dict(list(values.items())[:13]), quantities, LINE)


def test_other_names_or_another_order_are_refused(tmp_path):
    for names in (NAMES[::-1], NAMES[:1], ["target"]):
        with pytest.raises(ConfigError, match=r"^metrics.0.targets: expected \['length \(m\)', 'mass \(g\)'\], as in"):
            train(config(dict(type="RegressionError", targets=names)), tmp_path / "run")
    same = config(dict(type="RegressionError", targets=tuple(NAMES)))
    assert with_targets(same).metrics == same.metrics
    accuracy = config(dict(type="Accuracy"))
    assert with_targets(accuracy) is accuracy


def test_tasks_with_the_same_targets_get_their_names_and_others_must_be_named():
    inner = dict(type="PerTask", metric=dict(type="RegressionError"))
    cfg = config(inner)
    parts = {name: cfg.train_dataloader.dataset.to_dict() for name in ("a", "b")}
    cfg.train_dataloader.dataset = dict(type="Mixture", parts=parts)
    assert with_targets(cfg).metrics[0].metric.targets == NAMES
    parts["b"] = dict(type="SoakSquares", data_root=".", transforms=[])
    cfg.train_dataloader.dataset = dict(type="Mixture", parts=parts)
    with pytest.raises(ConfigError, match=r"^metrics.0.metric.targets: expected the names of targets, got none"):
        with_targets(cfg)


def test_a_model_without_a_number_of_targets_is_built_from_those_of_a_checkpoint():
    assert build_model(config(), class_names=NAMES).head.classes == 2


def test_the_contract_of_a_modality_knows_the_names_of_several_targets():
    cfg = config()
    model, data = build_model(cfg, "cpu"), DATASETS.create(cfg.train_dataloader.dataset)
    adapters, head = cast(Any, dict(model.modalities.items())), cast(Any, model.head)
    parts = Parts(data, model.width, adapters, head)
    result = answers(parts)
    assert result.passed, result.sentence


def test_a_readout_of_the_class_token_needs_one():
    cfg = config()
    cfg.model.head = dict(type="Regressor", classes=2, readout=["mean", "class"])
    with pytest.raises(ConfigError, match=r"^model.modalities.points: expected a class token, which Regressor reads"):
        build_model(cfg, "cpu")
    cfg.model.modalities.points.class_token = True
    assert build_model(cfg, "cpu")
