"""The ModelNet40 configs: checked, built at their sample size, and one step of each on real files."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch

from ndformer.framework.data import collate
from ndformer.framework.engine.config import load
from ndformer.framework.registry import DATASETS, MODELS

CONFIGS = sorted(Path(__file__).parents[3].glob("configs/modelnet40_*.py"))


@pytest.fixture(scope="module")
def toys(tmp_path_factory):
    """A tiny set in the form of modelnet40_normal_resampled."""
    home, rng = tmp_path_factory.mktemp("modelnet40"), np.random.default_rng(0)
    for kind in ("cone", "cup"):
        (home / kind).mkdir()
        for i in range(1, 5):
            np.savetxt(home / kind / f"{kind}_{i:04d}.txt", rng.normal(size=(600, 6)), "%.4f", ",")
    for split, numbers in dict(train=(1, 2, 3), test=(4,)).items():
        lines = [f"{kind}_{i:04d}\n" for kind in ("cone", "cup") for i in numbers]
        (home / f"modelnet40_{split}.txt").write_text("".join(lines))
    (home / "modelnet40_shape_names.txt").write_text("cone\ncup\n")
    return home


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_every_config_learns_from_files_at_its_sample_size(path, toys):
    cfg = load(path, [f"data_root={str(toys)!r}", "model.head.classes=2"], None, True)
    torch.manual_seed(0)
    model = MODELS.create(cfg.model)
    dataset = DATASETS.create(cfg.train_dataloader.dataset, seed=0)
    batch = collate([dataset[i] for i in range(len(dataset))])
    loss = model(**batch, mode="loss")["loss"]
    assert loss.item() == pytest.approx(math.log(2), abs=1e-5)  # every class equally likely
    loss.backward()
    assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)
    model.eval()
    test = DATASETS.create(cfg.test_dataloader.dataset, seed=0)
    (found,) = model(**collate([test[1]]), mode="predict")
    assert (found["label"], len(found["scores"])) == (1, 2)


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_the_full_configs_say_what_the_paper_does(path):
    cfg = load(path, [], None, False)
    assert cfg.train_cfg.max_epochs == 300
    assert cfg.schedule.warmup * 300 == 5
    assert (cfg.optimizer.lr, cfg.optimizer.weight_decay) == (1e-3, 0.01)
    assert tuple(cfg.optimizer.betas) == (0.9, 0.999)
    assert cfg.train_dataloader.batch_size == 32
    assert max(cfg.model.backbone.drop_path) == 0.3
    steps = {t["type"]: t for t in cfg.train_dataloader.dataset.transforms}
    assert list(steps) == [
        "SamplePoints", "NormalizePoints", "ScalePoints", "ShiftPoints", "GridSample", "ShufflePoints", "PackPoints"
    ]  # fmt: skip
    assert (steps["SamplePoints"]["count"], steps["SamplePoints"]["method"]) == (8192, "farthest")
    assert (tuple(steps["ScalePoints"]["scale"]), steps["ScalePoints"]["per_axis"]) == ((0.7, 1.5), True)
    assert (steps["ShiftPoints"]["most"], steps["GridSample"]["size"]) == (0.2, 0.01)
