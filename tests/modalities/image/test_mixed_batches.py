"""Batches of images of different sizes with a limited number of tokens, from the headers of files."""

from typing import Any

import numpy as np
import pytest
from PIL import Image

from ndformer.framework.engine.config.load import load
from ndformer.framework.engine.training.loading import build_loader, timed_batches
from ndformer.framework.errors import DataError

PATCH, LONGEST, BUDGET = 8, 64, 150
STEPS = f"[dict(type='KeepAspect', longest={LONGEST}, multiple_of={PATCH}), dict(type='Flip'), dict(type='PackImage')]"


@pytest.fixture
def photos(tmp_path):
    """data_root with 22 training photos of different sizes in two classes."""
    rng = np.random.default_rng(0)
    for split, count in (("train", 11), ("val", 2), ("test", 2)):
        for name in ("cat", "dog"):
            home = tmp_path / split / name
            home.mkdir(parents=True)
            for i in range(count):
                size = rng.integers(20, 90, 2)
                Image.fromarray(rng.integers(0, 255, (*size, 3), np.uint8)).save(home / f"{i}.png")
    return tmp_path


def config(root, *options, budget=BUDGET, steps=STEPS):
    edits = [f"data_root={str(root)!r}", f"train_dataloader.batch_tokens={budget}", "model.mix=None"]
    edits += [f"train_dataloader.dataset.transforms={steps}", f"model.modalities.image.patch={PATCH}"]
    edits += ["train_dataloader.num_workers=0", *options]
    return load("configs/imagefolder_pape.py", edits, sample=True)


def epoch(loader: Any, number=0, skip=0):
    """Return (sample indices, tokens) of each batch."""
    found = []
    for batch, _ in timed_batches(loader, number, skip):
        images = batch["inputs"]["image"]
        tokens = sum(1 + image.shape[1] * image.shape[2] // PATCH**2 for image in images)  # 1: the class token
        found.append(([sample["index"] for sample in batch["data_samples"]], tokens))
    return found


def test_each_photo_comes_once_within_the_budget_in_an_order_that_the_seed_sets(photos):
    first: Any = build_loader(config(photos), "train")
    again = build_loader(config(photos), "train")
    zero, one = epoch(first, 0), epoch(first, 1)
    assert epoch(again, 1) == one  # a function of (seed, epoch), whatever was read before
    assert zero != one
    assert [tokens for _, tokens in epoch(build_loader(config(photos, "seed=5"), "train"))] != [t for _, t in zero]
    for batches in (zero, one):
        assert len(batches) == len(first.batch_sampler)
        assert sorted(i for indices, _ in batches for i in indices) == list(range(22))
        assert max(tokens for _, tokens in batches) <= BUDGET
    assert epoch(again, 1, skip=2) == one[2:]  # resuming within an epoch
    shapes = {tuple(image.shape) for batch in first for image in batch["inputs"]["image"]}
    assert len(shapes) > 3


def damage(root):
    """Add photos that cannot be used; return the text that each error has."""
    home = root / "train" / "cat"
    Image.new("RGB", (10_000, 1)).save(home / "line.png")
    (home / "empty.png").write_bytes(b"")
    body = (home / "3.png").read_bytes()
    (home / "3.png").write_bytes(body[: len(body) // 2])  # its header is intact
    return ["line.png has 1 x 10000 pixels", "empty.png cannot be read", "3.png cannot be read"]


def test_unusable_photos_are_named_and_left_out_with_skip_bad(photos):
    expected = damage(photos)
    with pytest.raises(DataError, match=r"(line\.png has 1 x 10000|empty\.png cannot be read)"):
        build_loader(config(photos), "train")
    loader = build_loader(config(photos, "train_dataloader.skip_bad=True"), "train")
    batches = epoch(loader)
    assert max(tokens for _, tokens in batches) <= BUDGET
    errors = list(loader.bad.values())
    assert len(errors) == 3
    assert all(any(text in error for error in errors) for text in expected), errors
    indices = [i for batch, _ in batches for i in batch]
    assert len(indices) == 22  # of 24; the damaged one is replaced by one that is not longer
    assert len(set(indices)) == 21


def test_a_photo_larger_than_the_budget_is_refused_or_left_out(photos):
    with pytest.raises(DataError, match=r"png has \d+ tokens, and a batch at most batch_tokens=45\. Raise"):
        build_loader(config(photos, budget=45), "train")
    loader = build_loader(config(photos, "train_dataloader.skip_bad=True", budget=45), "train")
    batches = epoch(loader)
    assert max(tokens for _, tokens in batches) <= 45
    assert sum(len(indices) for indices, _ in batches) + len(loader.bad) == 22
    assert len(loader.bad) > 0


def test_sizes_that_only_decoding_tells_are_refused(photos):
    crop = "[dict(type='RandomResizedCrop', size=64), dict(type='PackImage')]"
    with pytest.raises(DataError, match="expected a dataset that knows the lengths of its samples, got ImageFolder"):
        build_loader(config(photos, steps=crop), "train")
