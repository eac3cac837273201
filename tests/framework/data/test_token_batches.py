"""Batches of a limited number of tokens: one schedule for all processes, of constant length."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ndformer.framework.data.token_batches import TokenBatches
from ndformer.framework.engine.config.load import load
from ndformer.framework.engine.training.loading import build_loader
from ndformer.framework.errors import DataError
from ndformer.framework.registry import STAND_INS
from tools import pack_shards


def schedules(lengths, tokens, processes, loops=1, epoch=0, skip=0):
    """Return the batches of each process."""
    samplers = [TokenBatches(lengths, tokens, 5, rank, processes, loops) for rank in range(processes)]
    for sampler in samplers:
        sampler.set_epoch(epoch)
        sampler.skip = skip
    return [[*sampler] for sampler in samplers], samplers[0]


@settings(max_examples=80, deadline=None)
@given(
    lengths=st.lists(st.integers(0, 500), min_size=5, max_size=60),
    tokens=st.integers(50, 2000),
    processes=st.integers(1, 5),
    loops=st.integers(1, 2),
    epoch=st.integers(0, 3),
)
def test_samples_come_once_in_equal_steps_of_limited_tokens(lengths, tokens, processes, loops, epoch):
    lengths = np.array(lengths)
    ranks, sampler = schedules(lengths, tokens, processes, loops, epoch)
    assert {len(batches) for batches in ranks} == {len(sampler)}  # equal steps, the same number in each epoch
    keys = [key for batches in ranks for batch in batches for key in batch]
    assert len(keys) == len(set(keys)) == loops * len(lengths) - sampler.dropped
    assert sampler.dropped < processes * loops
    assert {pass_ for pass_, _ in keys} == set(range(epoch * loops, (epoch + 1) * loops))
    for batches in ranks:
        for batch in batches:
            sizes = [max(1, lengths[i]) * 2**0.25 for _, i in batch]
            assert len(batch) > 0
            assert len(batch) == 1 or lengths[[i for _, i in batch]].sum() <= tokens + max(sizes)
    assert [batches[1:] for batches in ranks] == schedules(lengths, tokens, processes, loops, epoch, skip=1)[0]


def test_batches_of_short_samples_have_one_length_each():
    lengths = np.random.default_rng(0).integers(3, 30, 5000)
    (batches,), _ = schedules(lengths, 200, 1)
    mixed = sum(len({lengths[i] for _, i in batch}) > 1 for batch in batches)
    assert mixed <= 26 < len(batches) / 10  # at most where one length ends and the next begins


@settings(max_examples=40, deadline=None)
@given(lengths=st.lists(st.integers(1, 500), min_size=9, max_size=60), step=st.integers(0, 3))
def test_a_run_goes_on_with_another_number_of_processes_and_the_same_total(lengths, step):
    lengths = np.array(lengths)

    def batches(processes, skip=0):
        ranks, _ = schedules(lengths, 2400 // processes, processes, skip=skip)
        return [[key for part in parts for key in part] for parts in zip(*ranks)]

    whole = batches(1)
    assert batches(4, step)[: max(0, len(whole) - step - 1)] == whole[step:-1]  # the last has too few for 4


def test_samples_of_similar_length_change_places():
    lengths = np.random.default_rng(0).integers(50, 60, 64)
    first, second = (schedules(lengths, 500, 1, epoch=epoch)[0][0] for epoch in (0, 1))
    assert {frozenset(i for _, i in batch) for batch in first} != {frozenset(i for _, i in batch) for batch in second}


@pytest.mark.filterwarnings("ignore")
def test_packing_counts_the_tokens_of_recordings(tmp_path, monkeypatch):
    (tmp_path / "data").mkdir()
    STAND_INS.get("nmnist")().write(tmp_path / "data", 0, train=4, test=2)
    options = ["train_dataloader.batch_tokens=300"]

    def config(root):
        return load("configs/nmnist_small.py", [f"data_root={str(root)!r}", *options], sample=True)

    with pytest.raises(DataError, match=r"knows the lengths of its samples, got NMNIST\. Pack it with this config"):
        build_loader(config(tmp_path / "data"), "train")
    command = ["nmnist_small", str(tmp_path / "s"), "--sample", "--data-root", str(tmp_path / "data")]
    monkeypatch.setattr("sys.argv", ["pack_shards.py", *command, "--cfg-options", *options])
    pack_shards.main()
    loader: Any = build_loader(config(tmp_path / "s"), "train")
    lengths = loader.data.lengths()
    assert len(lengths) == len(loader.data)
    assert len(set(lengths.tolist())) > 3
    batches = [[i for _, i in batch] for batch in loader.batch_sampler]
    assert max(lengths[batch].sum() for batch in batches if len(batch) > 1) <= 300 + lengths.max()
    assert sum(len(batch["data_samples"]) for batch in loader) == len(loader.data)
