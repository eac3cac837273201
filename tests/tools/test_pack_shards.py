"""tools/pack_shards.py: recipes of every modality train on the same samples from shards as from folders."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
import torch

from ndformer.framework.data.batches import collate
from ndformer.framework.data.fingerprint import fingerprint
from ndformer.framework.data.shards.dataset import Shards
from ndformer.framework.data.stand_ins import MARK
from ndformer.framework.engine.building import build_model
from ndformer.framework.engine.calibration import calibrate
from ndformer.framework.engine.config.load import load
from ndformer.framework.engine.training.leakage import check_leakage
from ndformer.framework.engine.training.loading import build_dataset
from ndformer.framework.registry import STAND_INS
from tools import pack_shards, train

SPLITS = ("train", "val", "test")
CONFIGS = Path(__file__).parents[2] / "configs"
RECIPES = {  # stand-in: config, smaller data
    "arc": ("arc_task", dict(train=2, test=1)),
    "imagefolder": ("imagefolder", {}),
    "lidar": ("custom_lidar", dict(train=6, test=2)),
    "modelnet40": ("modelnet40_pape", dict(train=3, test=2, points=1100)),
    "paired": ("paired_sample", dict(train=8, test=2, points=400)),
}
SLOW = {"ade20k": ("ade20k_pape", {}), "cifar10": ("cifar10_pape", {}), "imagenet1k": ("imagenet1k_pape", {})}
SLOW |= {"mnist": ("mnist_small", {}), "scannet": ("scannet_pape", dict(train=6, val=2))}
SLOW |= {"nmnist": ("nmnist_small", dict(train=4, test=2))}
SLOW |= {"nuscenes": ("nuscenes_pape", dict(train=4, val=1, moments=2))}
SLOW |= {"coco": ("coco_pape", {}), "dvsgesture": ("dvsgesture_pape", dict(lights=("led",)))}
SLOW |= {"gen1": ("gen1_pape", dict(recordings=dict(train=6, val=4, test=4)))}
SLOW |= {"qm9": ("qm9_small", {})}
SLOW |= {"ucf101": ("ucf101_pape", dict(groups=25, clips=1, frames=20))}
CASES = [*RECIPES, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)]


def assert_same(a, b, roots):
    """Compare samples bit by bit; paths below their roots."""
    if isinstance(a, (np.ndarray, torch.Tensor)):
        a, b = np.asarray(a), np.asarray(b)
        assert (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes())
    elif isinstance(a, dict):
        assert a.keys() == b.keys()
        for name in a:
            assert_same(a[name], b[name], roots)
    elif isinstance(a, (list, tuple)):
        assert len(a) == len(b)
        for x, y in zip(a, b):
            assert_same(x, y, roots)
    elif dataclasses.is_dataclass(a):
        assert_same(vars(a), vars(b), roots)
    else:
        assert str(a).replace(str(roots[0]), "") == str(b).replace(str(roots[1]), "")


@pytest.mark.filterwarnings("ignore")  # warnings about tiny data
@pytest.mark.parametrize("name", CASES)
def test_a_recipe_trains_on_the_same_samples_from_shards(name, tmp_path, monkeypatch):
    config, small = (RECIPES | SLOW)[name]
    roots = [tmp_path / "data", tmp_path / "shards"]
    roots[0].mkdir()
    STAND_INS.get(name)().write(roots[0], 0, **small)
    (roots[0] / MARK).touch()
    command = [str(CONFIGS / f"{config}.py"), str(roots[1]), "--sample", "--data-root", str(roots[0]), "--shards", "3"]
    monkeypatch.setattr("sys.argv", ["pack_shards.py", *command])
    pack_shards.main()
    assert (roots[1] / MARK).exists()
    cfgs = [load(command[0], [f"data_root={str(root)!r}"], sample=True) for root in roots]
    sets = {split: [build_dataset(cfg, split) for cfg in cfgs] for split in SPLITS}
    check_leakage(cfgs[1], {split: data for split, (_, data) in sets.items()})
    for plain, data in sets.values():
        assert isinstance(data, Shards)
        assert data.classes == plain.classes
        assert data.labels.tolist() == plain.labels.tolist()
        assert data.absent() == plain.absent()
        assert data.likeness() == plain.likeness()
        assert fingerprint(data) == fingerprint(plain)
        for i in np.unique(np.linspace(0, len(plain) - 1, 4).astype(int)).tolist():
            assert_same(plain.sample(1, i), data.sample(1, i), roots)
    losses = []
    for cfg, data in zip(cfgs, sets["train"]):
        torch.manual_seed(0)
        model = build_model(calibrate(cfg)[0]).train()
        batch = collate([data.sample(0, i) for i in range(2)])
        loss = model.total(model(**model.to_device(batch), mode="loss"))
        loss.backward()
        losses.append(loss.item())
    assert losses[0] == losses[1]


@pytest.mark.slow
def test_training_goes_on_from_a_folder_in_shards(tmp_path, monkeypatch, capsys):
    """A run on a folder resumes on its shards, since the data is the same."""
    (tmp_path / "data").mkdir()
    STAND_INS.get("imagefolder")().write(tmp_path / "data", 0)
    common = ["imagefolder", "--sample", "--cfg-options", "train_cfg.max_epochs=1"]
    monkeypatch.setattr(
        "sys.argv", ["x", "imagefolder", str(tmp_path / "s"), "--sample", "--data-root", str(tmp_path / "data")]
    )
    pack_shards.main()
    assert "22 shards" in capsys.readouterr().out
    for root, more in (("data", []), ("s", ["--resume", "--allow-config-change"])):
        monkeypatch.setattr(
            "sys.argv",
            ["train.py", *common, "--data-root", str(tmp_path / root), "--work-dir", str(tmp_path / "run"), *more],
        )
        train.main()
    assert json.loads((tmp_path / "run" / "results.json").read_text())
