"""The point-cloud configs: checked, built at their sample size, and one step of each on files."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch

from ndformer.framework.data import collate
from ndformer.framework.engine.config import load
from ndformer.framework.registry import DATASETS, MODELS

HOME = Path(__file__).parents[3] / "configs"
CONFIGS = sorted(HOME.glob("modelnet40_*.py"))
SCENES = sorted(HOME.glob("scannet_*.py"))
BRICKS = [HOME / "ldraw10.py", HOME / "ldraw10_ptv3.py"]  # small as they are
NAMES = ("alibi", "nope", "pape", "pape_ri", "rope", "rope_mixed", "sincos")


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


@pytest.mark.parametrize("path", CONFIGS + BRICKS, ids=lambda path: path.stem)
def test_every_config_learns_from_files_at_its_sample_size(path, toys):
    cfg = load(path, [f"data_root={str(toys)!r}", "model.head.classes=2"], None, path not in BRICKS)
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
    drop_path = cfg.model.backbone.drop_path
    assert (drop_path if isinstance(drop_path, float) else max(drop_path)) == 0.3
    steps = {t["type"]: t for t in cfg.train_dataloader.dataset.transforms}
    assert list(steps) == [
        "SamplePoints", "NormalizePoints", "ScalePoints", "ShiftPoints", "GridSample", "ShufflePoints", "PackPoints"
    ]  # fmt: skip
    assert (steps["SamplePoints"]["count"], steps["SamplePoints"]["method"]) == (8192, "farthest")
    assert (tuple(steps["ScalePoints"]["scale"]), steps["ScalePoints"]["per_axis"]) == ((0.7, 1.5), True)
    assert (steps["ShiftPoints"]["most"], steps["GridSample"]["size"]) == (0.2, 0.01)


def test_every_encoding_of_the_paper_has_its_configs():
    found = {path.stem for path in CONFIGS + SCENES}
    assert {f"{kind}_{name}" for kind in ("modelnet40", "modelnet40_plain", "scannet") for name in NAMES} <= found


@pytest.fixture(scope="module")
def rooms(tmp_path_factory):
    """Tiny scenes as Pointcept lays them out; every room once more, so that Mix3D has something to mix."""
    home, rng = tmp_path_factory.mktemp("scannet"), np.random.default_rng(0)
    for name in ("train/scene0000_00", "train/scene0001_00", "train/scene0002_00", "val/scene0003_00"):
        (home / name).mkdir(parents=True)
        arrays = dict(
            coord=rng.uniform(0, 2, (400, 3)).astype(np.float32),
            color=rng.integers(0, 256, (400, 3), np.uint8),
            normal=rng.normal(size=(400, 3)).astype(np.float32),
            segment20=rng.integers(-1, 20, 400),
        )
        for file, values in arrays.items():
            np.save(home / name / f"{file}.npy", values)
    return home


@pytest.mark.parametrize("path", SCENES, ids=lambda path: path.stem)
def test_every_scene_config_learns_from_files_at_its_sample_size(path, rooms):
    cfg = load(path, [f"data_root={str(rooms)!r}", "train_dataloader.dataset.val_is_test=True"], None, True)
    torch.manual_seed(0)
    model = MODELS.create(cfg.model)
    dataset = DATASETS.create(cfg.train_dataloader.dataset, seed=0)
    torch.manual_seed(2)  # Mix3D mixes
    model(**collate([dataset[i] for i in range(3)]), mode="loss")["loss"].backward()
    assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)
    model.eval()
    test = DATASETS.create(cfg.test_dataloader.dataset, seed=0)
    (found,) = model(**collate([test[0]]), mode="predict")
    assert found["predicted"].shape == found["truth"].shape == (400,)  # of all raw points
    small = test[0] | dict(inputs=dict(points=test[0]["inputs"]["points"][:70]))
    with torch.no_grad():
        alone, mates = (model.test_scores(collate(some)) for some in ([small], [test[0], small, dataset[1]]))
    torch.testing.assert_close(mates[1], alone[0], rtol=1e-5, atol=1e-5 * float(alone[0].abs().max()))


def test_the_scene_configs_say_what_the_paper_and_the_recipe_do():
    cfg = load(HOME / "scannet_pape.py", [], None, False)
    assert cfg.train_cfg.max_epochs * cfg.train_dataloader.loops == 800
    assert cfg.schedule.warmup * 800 == 40
    assert (cfg.optimizer.lr, cfg.optimizer.weight_decay, cfg.optimizer.betas[0]) == (6e-3, 0.05, 0.9)
    assert (cfg.train_dataloader.batch_size, cfg.model.backbone.window, cfg.model.backbone.drop_path) == (12, 1024, 0.3)
    assert (cfg.model.mix.type, cfg.model.mix.p, cfg.model.head.lovasz) == ("Mix3D", 0.8, 1.0)
    steps = [t["type"] for t in cfg.train_dataloader.dataset.transforms]
    assert steps == [
        "CentrePoints", "DropPoints", "RotatePoints", "RotatePoints", "RotatePoints", "ScalePoints", "FlipPoints",
        "JitterPoints", "ElasticDistortion", "ContrastColours", "ShiftColours", "JitterColours", "GridSample",
        "CropSphere", "CentrePoints", "UnitColours", "PackPoints",
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["scannet_pape", "modelnet40_sincos"])
def test_the_preset_is_pointcepts_own_recipe(name):
    cfg = load(HOME / f"{name}.py", ["preset=pointcept"], None, False)
    assert cfg.param_groups.lr_factors == dict(blocks=0.1)
    assert (cfg.schedule.warmup, tuple(cfg.schedule.betas)) == (0.05, (0.85, 0.95))
    assert (cfg.schedule.div, cfg.schedule.final_div) == (10, 1000)
