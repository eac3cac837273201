"""configs/joint_sample.py: the same blocks learn from images, clouds, videos and event streams."""

from pathlib import Path

import numpy as np
import pytest
import torch

from ndformer.framework.data.batches import collate
from ndformer.framework.engine.config.load import load
from ndformer.framework.engine.inputs import Preparation
from ndformer.framework.errors import DataError
from ndformer.framework.registry import MODELS, TRANSFORMS
from ndformer.modalities.events.formats.stream import Events

CONFIG = Path(__file__).parents[2] / "configs" / "joint_sample.py"


def read(name, seed):
    """A sample as it comes before its last transform."""
    rng = np.random.default_rng(seed)
    if name == "image":
        return dict(image=rng.integers(0, 256, (32, 32, 3), dtype=np.uint8))
    if name == "points":
        return dict(points=rng.normal(size=(512, 3)), normals=np.zeros((512, 3)))
    if name == "video":
        return dict(video=rng.integers(0, 256, (10 - 2 * (seed % 2), 48, 64, 3), dtype=np.uint8))
    t = np.sort(rng.integers(0, 300_000, 20_000))
    x, y = rng.integers(0, 128, (2, 20_000))
    return dict(events=Events.from_arrays(x, y, t, rng.integers(0, 2, 20_000), 128, 128), start=0, end=300_000)


def test_one_step_of_each_modality_moves_the_shared_blocks():
    cfg = load(CONFIG, ["model.backbone.dim=16", "model.backbone.depth=1", "model.backbone.heads=2"], None, True)
    torch.manual_seed(0)
    model = MODELS.create(cfg.model)
    parts = cfg.train_dataloader.dataset.parts
    assert list(parts) == ["image", "points", "video", "events"] == list(model.modalities)
    for name, part in parts.items():
        pack = TRANSFORMS.create(dict(part.transforms[-1]))
        samples = [pack(read(name, seed) | dict(label=seed), np.random.default_rng(0)) for seed in range(2)]
        torch.nn.init.normal_(model.head[name].linear.weight)
        model.zero_grad()
        loss = model(**collate(samples), mode="loss")["loss"]
        loss.backward()
        moved = {n for n, p in model.named_parameters() if p.grad is not None and p.grad.abs().sum() > 0}
        assert "backbone.blocks.0.mlp.0.weight" in moved
        assert any(n.startswith(f"modalities.{name}.") for n in moved)
        others = [other for other in parts if other != name]
        assert not any(n.startswith((f"modalities.{o}.", f"head.{o}.")) for o in others for n in moved)


def test_a_file_is_of_the_modality_that_can_open_it(tmp_path):
    """Clouds and events both come in .npy."""
    cfg = load(CONFIG, ["model.backbone.dim=16", "model.backbone.depth=1", "model.backbone.heads=2"], None, True)
    prepared = Preparation(cfg, MODELS.create(cfg.model))
    np.save(tmp_path / "cloud.npy", np.zeros((5, 3)))
    np.save(tmp_path / "events.npy", np.zeros(5, [("x", "u2"), ("y", "u2"), ("t", "i8"), ("p", "u1")]))
    np.save(tmp_path / "what.npy", np.zeros(()))
    assert prepared.modality(tmp_path / "cloud.npy") == "points"
    assert prepared.modality(tmp_path / "events.npy") == "events"
    with pytest.raises(DataError, match=r"what\.npy cannot be read as"):
        prepared.sample((tmp_path / "what.npy",))
