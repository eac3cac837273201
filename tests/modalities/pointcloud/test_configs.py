"""The point cloud configs: checked, built at their sample size, and one step of each on files."""

import math
from pathlib import Path

import pytest
import torch

from ndformer.framework.data.batches import collate
from ndformer.framework.engine.config.load import load
from ndformer.framework.engine.training.loading import build_dataset
from ndformer.framework.registry import MODELS, STAND_INS
from tests.encodings_of_papers import with_encodings
from tests.modalities.pointcloud.test_scenes import write

HOME = Path(__file__).parents[3] / "configs"
CONFIGS = with_encodings("modelnet40", "modelnet40_plain")
SCENES = with_encodings("scannet")
BRICKS = [HOME / "ldraw10.py", HOME / "ldraw10_ptv3.py"]  # small as they are
FULL = [HOME / "modelnet40_pape.py", HOME / "modelnet40_plain_pape.py"]
ALL_OF_TRAIN = ["train_dataloader.dataset.val_is_test=True", "val_dataloader.dataset.val_is_test=True"]
ENCODER = dict(  # the published network: depths, widths and heads of 16, as its configs have them
    type="PTv3", in_channels=6, enc_depths=(2, 2, 2, 6, 2), enc_channels=(32, 64, 128, 256, 512),
    enc_heads=(2, 4, 8, 16, 32), window=1024, drop_path=0.3, cpe="none",
)  # fmt: skip


@pytest.fixture(scope="module")
def toys(tmp_path_factory):
    """The stand-in of ModelNet40: three clouds of each class for training, one to test."""
    home = tmp_path_factory.mktemp("modelnet40")
    STAND_INS.get("modelnet40")().write(home, train=3, test=1, points=600)
    return home


@pytest.mark.parametrize("path, encoding", [*CONFIGS, *(pytest.param(path, None, id=path.stem) for path in BRICKS)])
def test_every_config_learns_from_files_at_its_sample_size(path, encoding, toys):
    cfg = load(path, [f"data_root={str(toys)!r}", "model.head.classes=12"], encoding, path not in BRICKS)
    torch.manual_seed(0)
    model = MODELS.create(cfg.model)
    dataset = build_dataset(cfg, "train")
    batch = collate([dataset[i] for i in range(6)])
    loss = model(**batch, mode="loss")["loss"]
    assert loss.item() == pytest.approx(math.log(12), abs=1e-5)  # every class equally likely
    loss.backward()
    assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)
    model.eval()
    test = build_dataset(cfg, "test")
    (found,) = model(**collate([test[1]]), mode="predict")
    assert (found.label, len(found.scores)) == (1, 12)


@pytest.mark.parametrize("path", FULL, ids=lambda path: path.stem)
def test_the_full_configs_match_the_paper(path):
    cfg = load(path, [], None, False)
    assert cfg.train_cfg.max_epochs == 300
    assert cfg.schedule.warmup * 300 == 5
    assert (cfg.optimizer.lr, cfg.optimizer.weight_decay) == (1e-3, 0.01)
    assert tuple(cfg.optimizer.betas) == (0.9, 0.999)
    assert cfg.train_dataloader.batch_size == 32
    drop_path = cfg.model.backbone.drop_path
    assert (drop_path if isinstance(drop_path, float) else max(drop_path)) == 0.3
    plain = cfg.model.backbone.type == "Transformer"
    pack = dict(type="PackPoints") if plain else dict(type="PackPoints", features=("points", "normals"))
    first, last = [dict(type="SamplePoints", count=8192, method="farthest"), dict(type="NormalizePoints")], [pack]
    grid = [dict(type="GridSample", size=0.01)]
    assert listed(cfg.train_dataloader) == [
        *first,
        dict(type="ScalePoints", scale=(0.7, 1.5), per_axis=True),
        dict(type="ShiftPoints", most=0.2),
        *grid,
        dict(type="ShufflePoints"),
        *last,
    ]
    assert listed(cfg.val_dataloader) == listed(cfg.test_dataloader) == [*first, *grid, *last]
    assert cfg.train_cfg.get("amp") is None
    assert (cfg.model.head.classes, cfg.model.head.pool) == (40, "mean")
    if plain:
        return
    assert {name: cfg.model.backbone[name] for name in ENCODER} == ENCODER
    assert cfg.model.backbone.grid_size == 0.01
    assert tuple(cfg.model.backbone.dec_depths) == ()
    assert (cfg.model.head.hidden, cfg.model.head.dropout, cfg.model.head.lovasz) == ((256, 128), 0.5, 1.0)


def listed(loader):
    return [dict(t) for t in loader.dataset.transforms]


@pytest.fixture(scope="module")
def rooms(tmp_path_factory):
    home = tmp_path_factory.mktemp("scannet")
    for seed, name in enumerate(("train/scene0000_00", "train/scene0001_00", "train/scene0002_00", "val/scene0003_00")):
        write(home / name, seed, 400)
    return home


@pytest.mark.parametrize("path, encoding", SCENES)
def test_every_scene_config_learns_from_files_at_its_sample_size(path, encoding, rooms):
    cfg = load(path, [f"data_root={str(rooms)!r}", *ALL_OF_TRAIN], encoding, True)
    torch.manual_seed(0)
    model = MODELS.create(cfg.model)
    dataset = build_dataset(cfg, "train")
    torch.manual_seed(2)  # Mix3D mixes
    model(**collate([dataset[i] for i in range(3)]), mode="loss")["loss"].backward()
    assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)
    model.eval()
    test = build_dataset(cfg, "test")
    (found,) = model(**collate([test[0]]), mode="predict")
    assert found.predicted.shape == found.truth.shape == (400,)  # of all raw points
    small = test[0] | dict(inputs=dict(points=test[0]["inputs"]["points"][:70]))
    with torch.no_grad():
        alone, mates = (model.test_scores(collate(some)) for some in ([small], [test[0], small, dataset[1]]))
    torch.testing.assert_close(mates[1], alone[0], rtol=1e-5, atol=1e-5 * float(alone[0].abs().max()))


def test_scenes_are_mixed_two_by_two_in_training_alone(rooms):
    options = [f"data_root={str(rooms)!r}", "model.mix.p=1.0", *ALL_OF_TRAIN]
    cfg = load(HOME / "scannet_pape.py", options, "NoPE", True)
    torch.manual_seed(0)
    model, seen = MODELS.create(cfg.model), []
    model.backbone.register_forward_pre_hook(lambda module, given: seen.append(given[0].where))
    dataset = build_dataset(cfg, "train")
    samples = [dataset[i] for i in range(3)]
    counts = [len(sample["inputs"]["points"]) for sample in samples]
    model(**collate(samples), mode="loss")
    assert seen[0].valid.sum(1).tolist() == [counts[0] + counts[1], counts[2]]
    predicted = model.eval()(**collate(samples), mode="predict")
    assert [len(one.predicted) for one in predicted] == counts


def test_the_scene_config_matches_the_paper_and_the_recipe():
    cfg = load(HOME / "scannet_pape.py")
    assert (cfg.model.mix.type, cfg.model.mix.p, cfg.model.head.lovasz) == ("Mix3D", 0.8, 1.0)
    assert (cfg.train_cfg.amp, cfg.model.head.classes, cfg.val_dataloader.batch_size) == ("fp16", 20, 1)
    assert (cfg.metrics[0].type, cfg.metrics[0].absent) == ("MeanIoU", "zero")
    backbone = cfg.model.backbone
    decoder = dict(dec_depths=(2, 2, 2, 2), dec_channels=(64, 64, 128, 256), dec_heads=(4, 4, 8, 16), grid_size=0.02)
    assert {name: backbone[name] for name in ENCODER | decoder} == ENCODER | decoder
    last = [
        dict(type="CenterPoints", up=False, step=0.02),
        dict(type="UnitColors"),
        dict(type="PackPoints", features=("colors", "normals")),
    ]
    assert listed(cfg.train_dataloader) == [
        dict(type="CenterPoints"),
        dict(type="DropPoints", share=0.2, p=0.2),
        dict(type="RotatePoints", axis="z", degrees=180, p=0.5),
        dict(type="RotatePoints", axis="x", degrees=pytest.approx(2.8125), p=0.5),  # pi / 64
        dict(type="RotatePoints", axis="y", degrees=pytest.approx(2.8125), p=0.5),
        dict(type="ScalePoints", scale=(0.9, 1.1)),
        dict(type="FlipPoints", axes="xy", p=0.5),
        dict(type="JitterPoints", std=0.005, most=0.02),
        dict(type="ElasticDistortion", scales=((0.2, 0.4), (0.8, 1.6)), p=0.95),
        dict(type="ContrastColors", p=0.2),
        dict(type="ShiftColors", most=0.05, p=0.95),
        dict(type="JitterColors", std=0.05, p=0.95),
        dict(type="GridSample", size=0.02),
        dict(type="CropSphere", most=102400),
        *last,
    ]
    evaluated = [dict(type="CenterPoints"), dict(type="GridSample", size=0.02, whole=True), *last]
    assert listed(cfg.val_dataloader) == listed(cfg.test_dataloader) == evaluated


@pytest.mark.parametrize("name", ["scannet_pape", "modelnet40_pape"])
def test_the_preset_matches_the_recipe_of_pointcept(name):
    cfg = load(HOME / f"{name}.py", ["preset=pointcept"], None, False)
    assert cfg.param_groups.lr_factors == dict(blocks=0.1)
    assert (cfg.schedule.warmup, tuple(cfg.schedule.betas)) == (0.05, (0.85, 0.95))
    assert (cfg.schedule.div, cfg.schedule.final_div) == (10, 1000)
