"""Batches of videos of different sizes with a limited number of tokens."""

import json
from typing import Any

import numpy as np
import pytest
from PIL import Image

from ndformer.framework.engine.config.load import load
from ndformer.framework.engine.run import train
from ndformer.framework.engine.training.loading import build_loader, timed_batches
from ndformer.framework.errors import DataError
from ndformer.framework.registry import DATASETS, MODALITIES

BUDGET, TUBELET = 60, (2, 8, 8)
FRAMES = dict(type="SampleFrames", together=2, every=3, count=3)
ASPECT = dict(type="KeepAspect", longest=32, multiple_of=8)
RESIZE = dict(type="Resize", size=64)
STEPS = [FRAMES, dict(type="EachFrame", transforms=[ASPECT]), dict(type="PackVideo")]


def write_film(folder, frames, height, width, seed=0):
    """A folder of frames is a video."""
    folder.mkdir(parents=True)
    rng = np.random.default_rng(seed)
    for i in range(frames):
        Image.fromarray(rng.integers(0, 255, (height, width, 3), np.uint8)).save(folder / f"{i:03}.png")


@pytest.fixture
def films(tmp_path):
    rng, seed = np.random.default_rng(0), 0
    for split, count in (("train", 6), ("val", 2), ("test", 2)):
        for name in ("left", "right"):
            for i in range(count):
                seed += 1
                frames, (height, width) = rng.integers(2, 12), rng.integers(16, 60, 2)
                write_film(tmp_path / split / name / f"{i}", frames, height, width, seed)
    return tmp_path


def config(root, *options, budget=BUDGET):
    model = ["model.modalities.video.tubelet=(2,8,8)", "model.backbone.dim=16", "model.backbone.depth=1"]
    model += ["model.backbone.heads=2", "model.head.classes=2", "model.mix=None", f"data_root={str(root)!r}"]
    loaders = [f"{split}_dataloader.dataset.transforms={STEPS}" for split in ("train", "val", "test")]
    loaders += [f"{split}_dataloader.num_workers=0" for split in ("train", "val", "test")]
    return load("configs/custom_videos.py", [*model, *loaders, f"train_dataloader.batch_tokens={budget}", *options])


@pytest.mark.parametrize("frames", range(1, 10))
@pytest.mark.parametrize("clips", [1, 2])
def test_the_size_of_a_clip_is_known_before_it_is_decoded(tmp_path, frames, clips):
    write_film(tmp_path / "train" / "a" / "film", max(frames, 2), 40, 20)  # a folder has at least two images
    options = dict(type="VideoFolder", data_root=tmp_path, split="train", clips=clips, holdout=0.0, val_is_test=True)
    data: Any = DATASETS.create(options | dict(transforms=STEPS))
    adapter: Any = MODALITIES.create(dict(type="Tubelets", tubelet=TUBELET), dim=4)
    for i in range(len(data)):
        video = data[i]["inputs"]["video"]
        size = video.shape[0], *video.shape[2:]
        assert data.input_size(i) == size
        assert adapter.count_tokens(size) == adapter(video[None]).features.shape[1]


@pytest.mark.parametrize(
    "transforms",
    [
        [FRAMES, dict(type="PackVideo")],
        [FRAMES, dict(type="EachFrame", transforms=[dict(type="Resize", size=16)]), dict(type="PackVideo")],
        [FRAMES, dict(type="EachFrame", transforms=[ASPECT, dict(type="Resize", size=16)]), dict(type="PackVideo")],
        [FRAMES, dict(type="EachFrame", transforms=[ASPECT, ASPECT | dict(longest=64)]), dict(type="PackVideo")],
        [FRAMES, *[dict(type="EachFrame", transforms=[one]) for one in (ASPECT, RESIZE)], dict(type="PackVideo")],
    ],
)
def test_the_size_is_unknown_unless_keep_aspect_decides_it(tmp_path, transforms):
    write_film(tmp_path / "train" / "a" / "film", 2, 40, 20)
    options = dict(type="VideoFolder", data_root=tmp_path, split="train", holdout=0.0, val_is_test=True)
    data: Any = DATASETS.create(options | dict(transforms=transforms))
    assert data.input_size(0) is None


def test_each_clip_comes_once_within_the_budget_and_a_run_ends(films):
    loader: Any = build_loader(config(films), "train")
    indices, grids = [], set()
    for batch, _ in timed_batches(loader, 0, 0):
        videos = batch["inputs"]["video"]
        grids |= {tuple(side // part for side, part in zip((len(v), *v.shape[2:]), TUBELET)) for v in videos}
        assert sum(1 + v.shape[0] * v.shape[2] * v.shape[3] // np.prod(TUBELET) for v in videos) <= BUDGET
        indices += [sample["index"] for sample in batch["data_samples"]]
    assert sorted(indices) == list(range(12))
    assert len(grids) > 3
    train(config(films, "train_cfg.max_epochs=1"), films / "run")
    assert 0 <= json.loads((films / "run/results.json").read_text())["test"]["accuracy"] <= 1


def test_drawn_lengths_are_refused_since_frames_are_not_shrunk_to_them(films):
    with pytest.raises(DataError, match="lengths: expected KeepAspect first in the transforms, .* got SampleFrames"):
        build_loader(config(films, "train_dataloader.lengths=[20,40]"), "train")


def test_a_clip_over_the_budget_is_named(films):
    with pytest.raises(DataError, match=r"\d has \d+ tokens, and a batch at most batch_tokens=9"):
        build_loader(config(films, budget=9), "train")
