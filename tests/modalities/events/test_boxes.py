"""A detector on events: GEN1's boxes as corners, and the configs of all encodings learn from sparse tokens."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ndformer.framework.data.batches import collate
from ndformer.framework.engine.building import build_model, rehearse
from ndformer.framework.engine.config.load import load
from ndformer.framework.errors import ConfigError
from ndformer.framework.registry import METRICS, MODELS, TRANSFORMS
from ndformer.modalities.events.formats.stream import Events
from tests.encodings_of_papers import with_encodings

CONFIG = Path(__file__).parents[3] / "configs" / "gen1_pape.py"


def moment(seed: int = 0, count: int = 20_000, boxes: Any = ((40, 60, 50, 30), (200, 100, 20, 60)), **more: Any):
    """Events about two boxes, of the 240 x 304 sensor; `boxes` are x, y, width, height."""
    rng = np.random.default_rng(seed)
    left, top, width, height = np.array(boxes or [(0, 0, 304, 240)], float)[
        rng.integers(max(1, len(boxes)), size=count)
    ].T
    x, y = (np.floor(low + rng.random(count) * side) for low, side in ((left, width), (top, height)))
    t = np.sort(rng.integers(0, 400_000, count))
    events = Events.from_arrays(x.astype(np.int64), y.astype(np.int64), t, rng.integers(0, 2, count), 240, 304)
    labels = np.arange(len(boxes)) % 2
    rows = np.array(boxes, np.float32).reshape(-1, 4)
    return dict(events=events, start=0, end=400_000, boxes=rows, labels=labels, path=f"x_td.dat[{seed}]", **more)


def changed(sample: Any, transforms: Any, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    for transform in transforms:
        sample = TRANSFORMS.create(transform)(sample, rng)
    return sample


def test_corners_instead_of_sizes_and_the_truth_beside_them():
    found = changed(moment(), [dict(type="PackSpikes", reference="end"), dict(type="PackEventBoxes")])["data_sample"]
    assert found["boxes"].tolist() == [[40, 60, 90, 90], [200, 100, 220, 160]]
    assert found["truth"]["boxes"].tolist() == found["boxes"].tolist()
    assert (found["labels"].tolist(), found["image_id"], found["size"]) == ([0, 1], "x_td.dat[0]", (240, 304))


def test_the_config_is_the_papers_recipe():
    cfg = load(CONFIG)
    assert (cfg.optimizer.lr, cfg.optimizer.weight_decay, cfg.schedule.end) == (1e-4, 0.05, 0.01)
    assert (cfg.train_cfg.max_epochs, cfg.train_cfg.amp, cfg.train_dataloader.batch_size) == (150, "bf16", 64)
    assert (cfg.model.backbone.dim, cfg.model.backbone.position_dims) == (768, 3)
    flip, one, *packing = cfg.train_dataloader.dataset.transforms
    assert flip == dict(type="FlipEvents", p=0.5)
    names = ["DropArea", "DropTime", "DropEvents", "RotateEvents"]
    assert [transform["type"] for transform in one["transforms"]] == names
    spikes = dict(type="PackSpikes", threshold=256, refractory=100_000, patch=16, bins=10, reference="end")
    assert packing == [spikes, dict(type="PackEventBoxes")]
    last = dict(type="LastEvents", count=500_000)
    assert cfg.test_dataloader.dataset.transforms == [last, *packing] == cfg.val_dataloader.dataset.transforms
    events = cfg.model.modalities.events
    assert (events.time_unit, events.class_token, events.patch, events.bins) == (100_000, False, 16, 10)
    assert (cfg.model.head.neck.cells, cfg.model.head.neck.ages) == ((15, 19), True)


def test_a_class_token_in_a_cell_of_the_map_is_refused():
    cfg = load(CONFIG, ["model.modalities.events.class_token=True", "model.modalities.events.class_at=center"])
    with pytest.raises(ConfigError, match="class_at='nowhere' with Detector and neck.cells, got class_at='center'"):
        rehearse(cfg, build_model(cfg, "cpu"))


@pytest.mark.parametrize("path, encoding", with_encodings("gen1"))
def test_a_step_and_a_prediction_of_each(path, encoding):
    cfg = load(path, encoding=encoding, sample=True)
    torch.manual_seed(0)
    model = MODELS.create(cfg.model)
    steps = cfg.train_dataloader.dataset.transforms
    batch = collate([changed(one, steps, i) for i, one in enumerate((moment(), moment(1, 6_000, ())))])
    losses = model(**batch, mode="loss")
    losses["loss"].backward()
    assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)
    model.eval()
    test = [changed(one, cfg.test_dataloader.dataset.transforms) for one in (moment(), moment(1, 0))]
    found = model(**collate(test), mode="predict")
    for one in found:
        corners = one.boxes.view(-1, 2, 2)
        assert (corners >= 0).all()
        assert (corners <= torch.tensor([304, 240])).all()
    metric = METRICS.create(cfg.metrics[0])
    metric.process({}, found)
    assert 0 <= metric.compute_metrics(metric.results)["mAP"] <= 1


def test_the_second_sample_of_a_batch_never_changes_the_first():
    """Padding tokens fill no cell: a batch gives what each gives alone."""
    cfg = load(CONFIG, encoding='AxialRoPE(preset="pape_repo", axes=[2, 1, 0])', sample=True)
    torch.manual_seed(0)
    model = MODELS.create(cfg.model).eval()
    steps = cfg.test_dataloader.dataset.transforms
    short, long = changed(moment(2, 4_000), steps), changed(moment(3, 40_000), steps)
    maps = lambda samples: model.head.neck(model.features(collate(samples)["inputs"]))
    for alone, together in zip(maps([short]), maps([short, long])):
        torch.testing.assert_close(alone[0], together[0], rtol=1e-4, atol=1e-5)
