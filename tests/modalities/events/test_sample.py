"""The simulated camera, what is made with it, and the configs that learn from it."""

import math

import numpy as np
import pytest
import torch

from ndformer.framework.data.batches import collate
from ndformer.framework.engine.config.load import load
from ndformer.framework.engine.config.shipped import config_path
from ndformer.framework.engine.training.loading import build_dataset
from ndformer.framework.registry import DATASETS, MODELS
from ndformer.modalities.events.stand_ins import dvsgesture
from ndformer.modalities.events.stand_ins.acting import MOTIONS, film, mirrored
from ndformer.modalities.events.stand_ins.camera import DARK, film_to_events
from ndformer.modalities.events.stand_ins.nmnist import nmnist
from tests.encodings_of_papers import with_encodings

CONFIGS = [*with_encodings("dvsgesture", "nmnist"), pytest.param(config_path("nmnist_small"), None, id="nmnist_small")]
MIRRORED = [0, 2, 1, 6, 5, 4, 3, 7, 8, 9, 10]


def test_a_pixel_fires_for_each_step_of_its_logarithm(monkeypatch):
    """One pixel brightens, one darkens, one stays: as many events as steps, evenly over the time."""
    level = np.log(0.1 + DARK)
    rise = np.exp(level + np.array([0.0, 1.05, 1.05, 2.1])) - DARK
    fall = np.exp(level - np.array([0.0, 0.0, 0.55, 0.55])) - DARK
    frames = np.stack([rise, fall, np.full(4, 0.5)], 1)[:, None].astype(np.float32)  # (T, 1, 3)
    monkeypatch.setattr("ndformer.modalities.events.stand_ins.camera.MISMATCH", 0.0)
    events = film_to_events(frames, np.array([0, 1000, 2000, 3000]), np.random.default_rng(0), 0.1, 0.0)
    up, down = events.take(events.x == 0), events.take(events.x == 1)
    assert len(events) == len(up) + len(down) == 21 + 5 - 1 + 1 * (len(up) - 20)
    assert up.p.all()
    assert not down.p.any()
    assert np.abs(up.t[:10] - np.arange(1, 11) * 1000 / 10.5).max() < 2
    assert (up.t[10:] > 2000).all()
    assert np.abs(down.t - (1000 + np.arange(1, 6) * 1000 / 5.5)).max() < 2


def test_noise_comes_at_its_rate():
    frames = np.full((2, 40, 50), 0.5, np.float32)
    events = film_to_events(frames, np.array([0, 2_000_000]), np.random.default_rng(0), noise=3.0)
    assert len(events) == pytest.approx(3 * 2 * 2000, rel=0.05)
    assert events.in_order


def test_mirrored_gestures_follow_the_label_map():
    phase = np.linspace(0, 6, 50)
    for label in (1, 3, 4, 0):
        ours = MOTIONS[label](phase, np.random.default_rng(0))
        theirs = mirrored(MOTIONS[MIRRORED[label]](phase, np.random.default_rng(0)))
        for a, b in zip(ours, theirs):
            np.testing.assert_allclose(a, b)


def test_gestures_of_a_kind_go_over_the_same_places_at_the_same_pace():
    """Right wave, circle and back; clap, drums and roll: only the order in time differs."""
    for kind in ((1, 3, 4), (0, 7, 8)):
        for label in kind:
            angles, paces = [], []
            for seed in range(300):
                rng = np.random.default_rng(seed)
                phase = np.linspace(0, 2 * np.pi * rng.uniform(1.2, 2.2), 60) + rng.uniform(0, 2 * np.pi)
                right, left = MOTIONS[label](phase, rng)
                for hand, middle in zip((right, left), (38, 90)) if label in (0, 7, 8) else ((right, 38),):
                    across = hand - (middle, 56)
                    np.testing.assert_allclose(np.hypot(*across.T), 23)
                    angles.append(np.arctan2(across[:, 1], across[:, 0]))
                    paces.append(np.hypot(*np.diff(hand, axis=0).T).sum() / np.ptp(phase) / 23)
            shares = np.histogram(angles, 8, (-np.pi, np.pi))[0] / np.size(angles)
            assert np.abs(shares - 1 / 8).max() < 0.04  # all around
            assert np.mean(paces) == pytest.approx(1, abs=0.06)


def test_a_film_is_brightness():
    frames = film(3, np.arange(0, 100_000, 20_000), np.random.default_rng(0))
    assert frames.shape == (5, 128, 128)
    assert frames.dtype == np.float32
    assert 0 <= frames.min() < frames.max() <= 1


@pytest.fixture(scope="module")
def homes(tmp_path_factory):
    """The samples, shorter and with fewer people."""
    home = tmp_path_factory.mktemp("samples")
    patch = pytest.MonkeyPatch()
    patch.setattr(dvsgesture, "LENGTH", 250_000)
    patch.setattr(dvsgesture, "TRAIN", [1, 21])
    patch.setattr(dvsgesture, "TEST", [24])
    for name, make in (
        ("dvsgesture", lambda f: dvsgesture.dvsgesture(f, lights=("led",))),
        ("nmnist", lambda f: nmnist(f, 0, 2, 1)),
    ):
        (home / name).mkdir()
        make(home / name)
    patch.undo()
    return home


def test_samples_are_read_by_the_loaders_of_the_real_sets(homes):
    gestures = {
        s: DATASETS.create(dict(type="DvsGesture", data_root=homes / "dvsgesture", split=s))
        for s in ("train", "val", "test")
    }
    assert [len(part) for part in gestures.values()] == [11, 11, 11]
    assert gestures["test"].labels.tolist() == list(range(11))
    for i in range(11):
        found = gestures["test"][i]
        events = found["events"]
        assert found["start"] <= events.t[0] <= events.t[-1] <= found["end"]
        assert 500 < len(events) < 60_000
        assert 0.3 < events.p.mean() < 0.7
    digits = DATASETS.create(dict(type="NMNIST", data_root=homes / "nmnist", split="test"))
    assert digits.labels.tolist() == list(range(10))
    for i in range(10):
        events = digits[i]["events"]
        assert 1000 < len(events) < 20_000
        assert 280_000 < events.t[-1] < 320_000


@pytest.mark.slow
@pytest.mark.parametrize("path, encoding", CONFIGS)
def test_every_config_learns_from_files_at_its_sample_size(path, encoding, homes):
    home = homes / path.stem.partition("_")[0]
    cfg = load(path, [f"data_root={str(home)!r}", "model.backbone.depth=2"], encoding, True)
    torch.manual_seed(0)
    model = MODELS.create(cfg.model)
    dataset = build_dataset(cfg, "train")
    batch = collate([dataset[i] for i in range(4)])
    loss = model(**batch, mode="loss")["loss"]
    assert loss.item() == pytest.approx(math.log(cfg.model.head.classes), abs=1e-5)
    loss.backward()
    assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)
    test = build_dataset(cfg, "test")
    (found,) = model.eval()(**collate([test[1]]), mode="predict")
    assert (found.label, len(found.scores)) == (1, cfg.model.head.classes)


def test_the_full_config_is_the_papers_recipe():
    cfg = load(config_path("dvsgesture_pape"))
    assert (cfg.train_cfg.max_epochs, cfg.train_dataloader.batch_size, cfg.train_cfg.amp) == (300, 32, "fp16")
    assert (cfg.optimizer.lr, cfg.optimizer.weight_decay, tuple(cfg.optimizer.betas)) == (5e-5, 0.05, (0.9, 0.999))
    assert cfg.optimizer.lr * cfg.schedule.end == pytest.approx(5e-7)
    assert cfg.schedule.warmup * 300 == 15
    assert (cfg.model.backbone.dim, cfg.model.backbone.depth, cfg.model.backbone.heads) == (768, 12, 12)
    assert (cfg.model.backbone.drop_path, cfg.model.head.label_smoothing) == (0.1, 0.1)
    flip, one, pack = cfg.train_dataloader.dataset.transforms
    assert flip["labels"] == MIRRORED
    names = ["DropArea", "DropTime", "DropEvents", "ShearEvents", "RollEvents", "RotateEvents"]
    assert [transform["type"] for transform in one["transforms"]] == names
    assert all(set(transform) == {"type"} for transform in one["transforms"])  # with the published bounds
    assert (pack["reference"], cfg.model.modalities.events.class_at) == ("start", "origin")
    assert (pack["threshold"], pack["refractory"], pack["patch"], pack["bins"]) == (256, 100_000, 16, 10)
    assert cfg.model.modalities.events.time_unit == 50_000
