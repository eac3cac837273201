"""The detection configs: the papers' recipes, and a step of each at its sample size."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from ndformer.framework.data.batches import collate
from ndformer.framework.engine.config.load import load
from ndformer.framework.registry import MODELS, TRANSFORMS
from tests.encodings_of_papers import with_encodings

ROOT = Path(__file__).parents[3] / "configs"


@pytest.mark.parametrize("path, encoding", with_encodings("coco", "coco_vitt"))
def test_a_step_of_each_at_its_sample_size(path, encoding):
    cfg = load(path, encoding=encoding, sample=True)
    torch.manual_seed(0)
    model = MODELS.create(cfg.model)
    steps = [TRANSFORMS.create(t) for t in cfg.train_dataloader.dataset.transforms]
    rng = np.random.default_rng(0)
    samples = []
    for boxes in ([(10, 10, 60, 50)], []):
        image = Image.fromarray(rng.integers(0, 256, (60, 80, 3), dtype=np.uint8))
        one = dict(image=image, size=(60, 80), frame=np.array([1.0, 1, 0, 0]))
        one |= dict(boxes=np.array(boxes, dtype=float).reshape(-1, 4), labels=np.zeros(len(boxes), int))
        for step in steps:
            one = step(one, rng)
        samples.append(one)
    losses = model(**collate(samples), mode="loss")
    losses["loss"].backward()
    trained = {name for name, p in model.named_parameters() if p.grad is not None and bool(p.grad.any())}
    assert {name.split(".")[0] for name in trained} == {"modalities", "backbone", "head"}
    assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)


def test_coco_is_trained_as_in_the_paper():
    cfg = load(ROOT / "coco_pape.py")
    backbone, head = cfg.model.backbone, cfg.model.head
    assert (backbone.dim, backbone.depth, backbone.heads, backbone.drop_path) == (768, 12, 12, 0.1)
    assert cfg.model.modalities.image == dict(type="ImagePatches", patch=16, class_token=False)
    assert (head.classes, head.neck.reduced, head.norm_eps, head.norm_momentum) == (80, True, 1e-5, 0.1)
    assert (cfg.optimizer.type, cfg.optimizer.lr, cfg.optimizer.weight_decay) == ("AdamW", 6e-4, 0.05)
    assert (cfg.train_dataloader.batch_size, cfg.train_cfg.max_epochs, cfg.train_cfg.amp) == (64, 150, "fp16")
    assert cfg.schedule == dict(type="WarmupCosine", warmup=0.1)
    assert (cfg.param_groups, cfg.train_cfg.clip_grad, cfg.ema) == (None, None, None)
    steps = {t["type"]: t for t in cfg.train_dataloader.dataset.transforms}
    assert list(steps) == ["LargeScaleJitter", "FlipBoxes", "RandAugmentBoxes", "PackBoxes"]
    assert steps["LargeScaleJitter"]["size"] == 640
