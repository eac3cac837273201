"""The small version with the published head, on generated streets: files, losses, boxes."""

from typing import Any

import pytest
import torch

from ndformer.framework.data.batches import collate
from ndformer.framework.engine.building import build_model
from ndformer.framework.engine.config.load import load
from ndformer.framework.registry import DATASETS

SMALL = ["model.backbone.dim=24", "model.backbone.heads=2", "model.backbone.encoding.m=8", "model.head.width=32"]
SMALL += [f"model.head.neck.{one}" for one in ("blocks=(1,1,1)", "widths=(16,16,16)", "up=16")]
STEPS = 10


@pytest.mark.slow
def test_queries_learn_the_boxes_of_streets(made):
    cfg: Any = load("configs/nuscenes_pape_queries.py", SMALL, sample=True)
    assert cfg.model.head.type == "TransFusion"
    chosen = dict(data_root=made, version="v1.0-mini", split="train", holdout=0.0)
    data: Any = DATASETS.create(dict(cfg.train_dataloader.dataset) | chosen)
    torch.manual_seed(0)
    model = build_model(cfg).train()
    optimizer = torch.optim.AdamW(model.parameters(), 3e-3)
    samples = [data[i] for i in range(2)]
    batch, losses = collate(samples), []
    for _ in range(STEPS):
        optimizer.zero_grad()
        parts = model(**batch, mode="loss")
        parts["loss"].backward()
        optimizer.step()
        losses.append({name: float(value.detach()) for name, value in parts.items()})
    assert losses[-1]["loss"] < 0.6 * losses[0]["loss"]
    assert losses[-1]["box"] < losses[0]["box"]
    answers = model.eval().val_step(batch)
    assert [len(answer.boxes) for answer in answers] == [60, 60]
    for answer in answers:
        assert answer.boxes.isfinite().all()
        assert (answer.boxes[:, 3:6] > 0).all()
        assert (answer.scores.diff() <= 0).all()
    for one in samples:  # and a batch without boxes goes on
        one["data_sample"] |= dict(boxes=torch.zeros(0, 9), classes=torch.zeros(0).long())
    optimizer.zero_grad()
    loss = model.train()(**collate(samples), mode="loss")["loss"]
    loss.backward()
    assert loss.isfinite()
    assert all(weight.grad is None or weight.grad.isfinite().all() for weight in model.parameters())
