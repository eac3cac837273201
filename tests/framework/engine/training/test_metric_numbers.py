"""Values of metrics of users: any number counts, and is a plain one in checkpoints."""

from typing import Any

import numpy as np
import pytest
import torch

from ndformer.framework.engine.run import train
from ndformer.framework.engine.training import checkpoint
from ndformer.framework.errors import DataError
from ndformer.framework.evaluation.metric import Metric
from ndformer.framework.registry import METRICS
from tests.soak import tiny


class AsKind(Metric):
    """A metric whose value has another type than float."""

    main, better, unit = "error", "lower", ""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind

    def process(self, data_batch, data_samples):
        self.results += [1.5] * len(data_samples)

    def compute_metrics(self, results) -> dict[str, Any]:
        kinds = dict(double=np.float64, single=np.float32, tensor=torch.tensor, list=lambda value: [value])
        return dict(error=kinds[self.kind](np.mean(results)))


@pytest.mark.parametrize("kind", ["double", "single", "tensor"])
def test_a_metric_may_return_any_number(tmp_path, kind):
    METRICS.register_module(module=AsKind, force=True)
    cfg = tiny.config(batch=8, metrics=[dict(type="AsKind", kind=kind)])
    cfg.train_cfg.max_epochs = 1
    train(cfg, tmp_path)
    assert checkpoint.load(tmp_path / "best.pth")["metrics"] == dict(error=1.5)


def test_a_metric_that_returns_no_number_is_a_sentence(tmp_path):
    METRICS.register_module(module=AsKind, force=True)
    cfg = tiny.config(batch=8, metrics=[dict(type="AsKind", kind="list")])
    with pytest.raises(DataError, match=r"AsKind.compute_metrics\(\): expected a number for 'error', got \["):
        train(cfg, tmp_path)
