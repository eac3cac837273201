"""Batches of a limited number of tokens: one schedule for all processes, of constant length."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ndformer.framework.data.token_batches import LengthBatches, TokenBatches
from ndformer.framework.engine.config.load import load
from ndformer.framework.engine.training.loading import build_loader
from ndformer.framework.errors import DataError
from ndformer.framework.registry import STAND_INS
from tests.programs import NO_WORKERS, write_images
from tools import pack_shards


def schedules(lengths, tokens, processes, loops=1, epoch=0, skip=0):
    """Return the batches of each process."""
    samplers = [TokenBatches(lengths, tokens, 5, rank, processes, loops) for rank in range(processes)]
    for sampler in samplers:
        sampler.set_epoch(epoch)
        sampler.skip = skip
    return [[*sampler] for sampler in samplers], samplers[0]


@settings(max_examples=100, deadline=None)
@given(
    lengths=st.lists(st.integers(0, 500), min_size=5, max_size=60),
    tokens=st.integers(500, 2000),
    processes=st.integers(1, 5),
    loops=st.integers(1, 2),
    epoch=st.integers(0, 3),
)
def test_samples_come_once_in_equal_steps_within_the_budget(lengths, tokens, processes, loops, epoch):
    lengths = np.array(lengths)
    ranks, sampler = schedules(lengths, tokens, processes, loops, epoch)
    assert {len(batches) for batches in ranks} == {len(sampler)}  # equal steps, the same number in each epoch
    keys = [key for batches in ranks for batch in batches for key in batch]
    assert len(keys) == len(set(keys)) == loops * len(lengths) - sampler.dropped
    assert sampler.dropped < processes * loops
    if 2 * max(lengths) * 2**0.25 <= tokens:  # a process has room for two of any length
        assert sampler.dropped == 0
    assert {pass_ for pass_, _ in keys} == set(range(epoch * loops, (epoch + 1) * loops))
    for batch in (batch for batches in ranks for batch in batches):
        assert 0 < sum(max(1, lengths[i]) for _, i in batch) <= tokens
    assert [batches[1:] for batches in ranks] == schedules(lengths, tokens, processes, loops, epoch, skip=1)[0]


def test_samples_that_fit_into_no_batch_are_others_in_each_epoch():
    """17 samples of which no two fit into a process cannot be dealt to four processes in equal steps."""
    lengths, left_out = np.array([300] * 16 + [33]), []
    for epoch in range(200):
        ranks, _ = schedules(lengths, 300, 4, epoch=epoch)
        left_out += sorted(set(range(17)) - {i for batches in ranks for batch in batches for _, i in batch})
    assert len(left_out) == 200
    assert set(left_out) == set(range(17))
    assert max(np.bincount(left_out)) < 30  # 12 on average


@pytest.mark.parametrize("lengths, tokens", [([160, 150, 120, 100, 90], 300), ([75] * 9, 300), ([300] * 4 + [33], 350)])
def test_a_remainder_smaller_than_the_number_of_processes_joins_other_batches(lengths, tokens):
    ranks, sampler = schedules(np.array(lengths), tokens, 4)
    assert sorted(i for batches in ranks for batch in batches for _, i in batch) == list(range(len(lengths)))
    assert sampler.dropped == 0


def test_more_processes_than_samples_are_refused():
    with pytest.raises(DataError, match=r"expected at most 2 processes, one per usable sample, got 3\. Start fewer"):
        TokenBatches(np.array([5, 5, -1]), 100, processes=3)


def test_batches_of_short_samples_have_one_length_each():
    lengths = np.random.default_rng(0).integers(3, 30, 5000)
    (batches,), _ = schedules(lengths, 200, 1)
    mixed = sum(len({lengths[i] for _, i in batch}) > 1 for batch in batches)
    assert mixed <= 26 < len(batches) / 10  # at most where one length ends and the next begins


def test_samples_of_similar_length_change_places():
    lengths = np.random.default_rng(0).integers(50, 60, 64)
    first, second = (schedules(lengths, 500, 1, epoch=epoch)[0][0] for epoch in (0, 1))
    assert {frozenset(i for _, i in batch) for batch in first} != {frozenset(i for _, i in batch) for batch in second}


def test_each_pass_of_each_epoch_has_another_order():
    lengths = np.random.default_rng(0).integers(50, 60, 64)
    passes = []
    for epoch in (0, 1):
        (batches,), _ = schedules(lengths, 500, 1, loops=2, epoch=epoch)
        passes += [
            str([[i for _, i in batch] for batch in half]) for half in np.array_split(np.array(batches, object), 2)
        ]
    assert len(set(passes)) == 4


def test_batches_of_random_lengths_have_other_samples_in_each_pass_and_the_smallest_last():
    sampler = LengthBatches(100, [10, 20, 40], 120, [1, 2, 4], seed=3, loops=2)
    epochs = []
    for epoch in (0, 1):
        sampler.set_epoch(epoch)
        epochs.append([[i for _, i, _ in batch] for batch in sampler])
    half = len(sampler) // 2
    passes = [epoch[start : start + half] for epoch in epochs for start in (0, half)]
    assert len({str(sorted(map(sorted, batches))) for batches in passes}) == 4
    assert len({len(batches[-1]) for batches in passes}) == 1
    assert len({str([len(batch) for batch in batches]) for batches in passes}) > 1


@pytest.mark.filterwarnings("ignore")
def test_packing_counts_the_tokens_of_recordings(tmp_path, monkeypatch):
    (tmp_path / "data").mkdir()
    STAND_INS.get("nmnist")().write(tmp_path / "data", 0, train=4, test=2)
    options = ["train_dataloader.batch_tokens=300"]

    def config(root):
        return load("configs/nmnist_small.py", [f"data_root={str(root)!r}", *options], sample=True)

    with pytest.raises(
        DataError,
        match=r"knows the lengths of its samples, got NMNIST with the transforms .*: pack it with this config",
    ):
        build_loader(config(tmp_path / "data"), "train")
    command = ["nmnist_small", str(tmp_path / "s"), "--sample", "--data-root", str(tmp_path / "data")]
    monkeypatch.setattr("sys.argv", ["pack_shards.py", *command, "--cfg-options", *options])
    pack_shards.main()
    loader: Any = build_loader(config(tmp_path / "s"), "train")
    lengths = loader.data.lengths()
    assert len(lengths) == len(loader.data)
    assert len(set(lengths.tolist())) > 3
    batches = [[i for _, i in batch] for batch in loader.batch_sampler]
    assert max(lengths[batch].sum() for batch in batches) <= 300
    assert sum(len(batch["data_samples"]) for batch in loader) == len(loader.data)


def test_photographs_in_shards_are_batched_as_their_files(tmp_path, monkeypatch):
    """Their sizes are read from the headers in the shards."""
    for name, size in (("left", (32, 48)), ("right", (40, 24))):
        write_images(tmp_path / "data", (name,), splits=("train", "val", "test"), size=size)
    options = ["preset=small", "model.head.classes=2", "train_dataloader.batch_tokens=200", *NO_WORKERS]
    command = ["imagefolder_native", tmp_path / "shards", "--data-root", tmp_path / "data"]
    monkeypatch.setattr("sys.argv", ["pack_shards.py", *map(str, command), "--cfg-options", *options])
    pack_shards.main()
    batches = []
    for root in ("data", "shards"):
        cfg = load("configs/imagefolder_native.py", [f"data_root={str(tmp_path / root)!r}", *options])
        loader: Any = build_loader(cfg, "train")
        shapes = [[image.shape[1:].numel() // 36 + 1 for image in batch["inputs"]["image"]] for batch in loader]
        assert max(map(sum, shapes)) <= 200
        batches.append(sorted(sorted(batch) for batch in shapes))
    assert batches[0] == batches[1]
    assert sum(map(len, batches[0])) == 8
