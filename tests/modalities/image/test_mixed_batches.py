"""Batches of images of different sizes with a limited number of tokens, from the headers of files."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from ndformer.framework.data.token_batches import LengthBatches
from ndformer.framework.engine.config.load import load
from ndformer.framework.engine.run import train
from ndformer.framework.engine.training import checkpoint
from ndformer.framework.engine.training.loading import build_loader, timed_batches
from ndformer.framework.errors import DataError
from ndformer.framework.registry import MODALITIES
from tests.framework.engine.training.runs import kill
from tests.soak.tiny import differences
from tests.spawned import spawned

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
    with pytest.raises(DataError, match=r"(line\.png has 1 x 10000|empty\.png cannot be read)") as error:
        build_loader(config(photos), "train")
    assert "train_dataloader.skip_bad=True leaves such samples out" in error.value.option
    loader = build_loader(config(photos, "train_dataloader.skip_bad=True"), "train")
    batches = epoch(loader)
    assert max(tokens for _, tokens in batches) <= BUDGET
    errors = list(loader.bad.values())
    assert len(errors) == 3
    assert all(any(text in error for error in errors) for text in expected), errors
    indices = [i for batch, _ in batches for i in batch]
    assert len(indices) == 22  # of 24; the damaged one is replaced by one that is not longer
    assert len(set(indices)) == 21
    assert loader.data.usable is not None
    unusable = sorted({*range(len(loader.data))} - {*loader.data.usable.tolist()})
    assert len(unusable) == 2
    assert all("image" in loader.data[i]["inputs"] for i in unusable)  # as browsing reads them


@pytest.mark.parametrize("count", [2, 3])
def test_a_run_continues_when_the_smallest_photos_are_damaged(count, photos):
    names = [f"{i}.png" for i in range(count)]
    for path in (photos / "train" / "cat" / name for name in names):
        Image.fromarray(np.random.default_rng(1).integers(0, 255, (4, 60, 3), np.uint8)).save(path)
        path.write_bytes(path.read_bytes()[:400])  # its header is intact
    loader = build_loader(config(photos, "train_dataloader.skip_bad=True"), "train")
    batches = epoch(loader)
    assert sum(len(indices) for indices, _ in batches) == 22
    assert max(tokens for _, tokens in batches) <= BUDGET
    assert sorted(name.rpartition("/")[2] for name in loader.bad) == names


def test_a_photo_larger_than_the_budget_is_refused_or_left_out(photos):
    with pytest.raises(DataError, match=r"png has \d+ tokens, and a batch at most batch_tokens=45\. Raise"):
        build_loader(config(photos, budget=45), "train")
    loader = build_loader(config(photos, "train_dataloader.skip_bad=True", budget=45), "train")
    batches = epoch(loader)
    assert max(tokens for _, tokens in batches) <= 45
    assert sum(len(indices) for indices, _ in batches) + len(loader.bad) == 22
    assert len(loader.bad) > 0


@pytest.mark.parametrize("lengths", [None, [17, 37]])
def test_mosaics_keep_to_the_budget(lengths, tmp_path):
    """Their size is known before: a mosaic has the ratio of its first image."""
    rng = np.random.default_rng(0)
    for name in ("images", "labels"):
        (tmp_path / name / "train").mkdir(parents=True)
    for i in range(20):
        size = rng.integers(20, 90, 2)
        Image.fromarray(rng.integers(0, 255, (*size, 3), np.uint8)).save(tmp_path / f"images/train/{i}.png")
        (tmp_path / f"labels/train/{i}.txt").write_text("0 0.5 0.5 0.6 0.6\n")
    (tmp_path / "classes.txt").write_text("box\n")
    steps = f"[dict(type='KeepAspect', longest={LONGEST}, multiple_of={PATCH}), dict(type='PackBoxes')]"
    data = dict(type="'YoloFolder'", transforms=steps, mosaic=0.7)
    edits = [f"train_dataloader.dataset.{name}={value}" for name, value in data.items()]
    edits += [
        f"data_root={str(tmp_path)!r}",
        "train_dataloader.batch_tokens=150",
        f"train_dataloader.lengths={lengths}",
    ]
    edits += [f"model.modalities.image.patch={PATCH}", "model.modalities.image.class_token=True"]
    loader: Any = build_loader(load("configs/bccd_native.py", edits), "train")
    batches = epoch(loader)
    assert sorted(i for indices, _ in batches for i in indices) == list(range(18))  # 2 are held out
    assert max(tokens for _, tokens in batches) <= 150
    boxes = [len(sample["boxes"]) for batch in loader for sample in batch["data_samples"]]
    assert 0 < sum(count > 1 for count in boxes) < 18


ASPECT = "dict(type='KeepAspect', longest=64, multiple_of=8)"


@pytest.mark.parametrize(
    "steps",
    [
        "dict(type='RandomResizedCrop', size=64)",
        f"{ASPECT}, dict(type='Resize', size=(64, 96))",
        f"{ASPECT}, dict(type='KeepAspect', longest=96, multiple_of=8)",
    ],
)
def test_sizes_that_only_decoding_tells_are_refused(steps, photos):
    text = "expected a dataset that knows the lengths of its samples, got ImageFolder with the transforms .*, PackImage"
    with pytest.raises(DataError, match=text):
        build_loader(config(photos, steps=f"[{steps}, dict(type='PackImage')]"), "train")


@settings(max_examples=60, deadline=None)
@given(
    count=st.integers(4, 200),
    lengths=st.lists(st.integers(5, 60), min_size=1, max_size=4),
    tokens=st.integers(60, 400),
    processes=st.integers(1, 4),
    loops=st.integers(1, 2),
    number=st.integers(0, 3),
    skip=st.integers(0, 3),
)
def test_batches_of_drawn_lengths(count, lengths, tokens, processes, loops, number, skip):
    samplers = [
        LengthBatches(count, lengths, tokens, [n - 1 for n in lengths], 7, rank, processes, loops)
        for rank in range(processes)
    ]
    for sampler in samplers:
        sampler.set_epoch(number)
    ranks = [list(sampler) for sampler in samplers]
    assert {len(batches) for batches in ranks} == {len(samplers[0])}
    keys = [key[:2] for batches in ranks for batch in batches for key in batch]
    assert len(keys) == len(set(keys)) == loops * count - samplers[0].dropped
    assert samplers[0].dropped < processes * loops
    for parts in zip(*ranks):
        (limit,) = {limit for part in parts for _, _, limit in part}  # one length for all processes
        assert limit + 1 in lengths
        assert all(0 < len(part) * (limit + 1) <= tokens for part in parts)
    for rank, sampler in enumerate(samplers):
        sampler.skip = skip
        assert list(sampler) == ranks[rank][skip:]  # resuming within an epoch
        sampler.set_epoch(number + 1)
        assert len(list(sampler)) == len(sampler)
        sampler.set_epoch(number)


def test_photos_shrink_to_the_length_of_their_batch(photos):
    options = ["train_dataloader.lengths=[17,37,65]"]
    first = epoch(build_loader(config(photos, *options, budget=80), "train"))
    assert first == epoch(build_loader(config(photos, *options, budget=80), "train"))
    assert sorted(i for indices, _ in first for i in indices) == list(range(22))
    assert max(tokens for _, tokens in first) <= 80
    assert {len(indices) for indices, _ in first} & {4, 2, 1}
    for wrong in ("[1,17]", "[17,81]"):
        with pytest.raises(DataError, match=r"lengths: expected numbers of tokens from 2 to batch_tokens=80, got \["):
            build_loader(config(photos, f"train_dataloader.lengths={wrong}", budget=80), "train")


@pytest.mark.parametrize("patch, option", [(4, "drop_tokens=0.0"), (4, "drop_tokens=0.3"), (8, "patch_sizes=[4,8]")])
def test_patches_smaller_than_the_cells_of_keep_aspect_keep_to_the_length(patch, option, photos):
    cfg = config(photos, "train_dataloader.lengths=[17,37,65]", f"model.modalities.image.{option}", budget=80)
    cfg.model.modalities.image.patch = patch
    loader = build_loader(cfg, "train")
    adapter = MODALITIES.create(dict(cfg.model.modalities.image), dim=8)
    counts = [[adapter.count_tokens(image.shape[1:]) for image in batch["inputs"]["image"]] for batch in loader]
    assert max(map(sum, counts)) <= 80
    assert 17 < max(map(max, counts)) <= 65
    cfg.train_dataloader.lengths = [3]
    with pytest.raises(DataError, match=r"lengths: expected numbers of tokens from [45] to batch_tokens=80, got \[3\]"):
        build_loader(cfg, "train")


@pytest.mark.parametrize("share, cells", [(0.0, [1, 64]), (0.5, [2, 128]), (0.75, [4, 256])])
def test_dropped_tokens_do_not_count_towards_a_length(share, cells, photos):
    """A patch is a cell, and a class token comes first: 128 patches without half of them are 64 tokens."""
    options = ["train_dataloader.lengths=[2,65]", f"model.modalities.image.drop_tokens={share}"]
    loader: Any = build_loader(config(photos, *options, budget=80), "train")
    assert list(loader.batch_sampler.cells.values()) == cells


def test_batch_tokens_of_a_model_of_two_modalities_is_refused_in_a_sentence(photos):
    image = dict(type="ImagePatches", patch=PATCH)
    with pytest.raises(DataError, match=r"expected a model of one modality, .* got image, depth\. Give ImageFolder a"):
        build_loader(config(photos, f"model.modalities.depth={image}"), "train")


def in_one_process(function: Callable[..., Any], *arguments: Any) -> None:
    function(*arguments)


def in_two_processes(function: Callable[..., Any], *arguments: Any) -> None:
    spawned(2, function, *arguments)


@pytest.mark.slow
@pytest.mark.parametrize("processes", [in_one_process, in_two_processes])
def test_a_run_killed_within_an_epoch_ends_bit_equal(processes, photos, tmp_path_factory):
    options = ["train_cfg.max_epochs=2", "train_cfg.checkpoint_every=1"]
    options += ["model.modalities.image.patch_sizes=[4,8]", "model.modalities.image.drop_tokens=0.3"]
    options += ["model.backbone.dim=24", "model.backbone.depth=1", "model.backbone.heads=2", "model.head.classes=None"]
    options += [f"{split}_dataloader.dataset.transforms={STEPS}" for split in ("val", "test")]
    options += ["val_dataloader.num_workers=0", "test_dataloader.num_workers=0", "ema=dict(decay=0.9)"]
    whole, killed = (tmp_path_factory.mktemp(name) for name in ("whole", "killed"))
    cfg = config(photos, *options, budget=300)
    processes(train, cfg, whole)
    processes(kill, killed, cfg, 3)
    assert checkpoint.load(killed / "last.pth")["batch"] > 0
    processes(train, cfg, killed, True)
    assert differences(whole, killed) == []
