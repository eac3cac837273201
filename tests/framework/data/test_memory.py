"""`cache='memory'`: the same samples, read once, within the limit."""

from typing import cast

import numpy as np
import pytest
import torch
from PIL import Image

from ndformer.framework.data.batches import Batches
from ndformer.framework.data.dataset import Dataset, Decoding
from ndformer.framework.data.memory import Memory
from ndformer.framework.data.mixture import Mixture
from ndformer.framework.engine.config.differences import relevant_changes
from ndformer.framework.engine.training.loading import Loader, build_loader
from ndformer.framework.errors import DataError
from ndformer.framework.registry import DATASETS
from ndformer.framework.registry.signature import arguments
from tests.soak.tiny import config

COUNT = 12


class Counted(Dataset):
    """Samples with a table, an image and a noncontiguous array; `reads` lists the records read."""

    def index(self, split):
        self.classes, self.reads = ["a", "b"], []
        return list(range(COUNT)), np.arange(COUNT) % 2

    def read(self, record):
        self.reads.append(record)
        rng = np.random.default_rng(record)
        picture = Image.fromarray(rng.integers(0, 255, (3, 4, 3), dtype=np.uint8))
        table = rng.random((20, 5)).astype(np.float32)
        place = rng.random((5, 20)).T[::2]
        return dict(table=table, place=place, picture=picture, nested=[dict(at=table[:2].copy())], label=record % 2)


class Larger(Counted):
    """Samples that the size estimate does not read are larger."""

    def read(self, record):
        return super().read(record) | dict(more=bytes(40_000 if record == 1 else 10))


class Open(Counted):
    def read(self, record):
        return super().read(record) | dict(later=lambda: record)


class Rotten(Counted):
    def read(self, record):
        if record in (0, 5):
            raise DataError(f"{record} is rotten")
        return super().read(record)


class Decoded(Decoding):
    """Counts its calls; random unless fixed, as SampleFrames can be."""

    def __init__(self, fixed):
        self.fixed, self.calls = fixed, 0

    def __call__(self, sample, rng):
        self.calls += 1
        return sample | dict(frames=sample["table"] * (1 if self.fixed else rng.random()))


def spoiled(sample, rng):
    """Change a sample in place."""
    sample["table"] += rng.random()
    sample["place"][0] = 0
    sample["picture"].putpixel((0, 0), (1, 2, 3))
    sample["nested"][0]["at"] *= 2
    sample["nested"].append(1)
    return sample


def packed(sample, rng):
    whole = [sample["table"].ravel(), sample["place"].mean(0), np.asarray(sample["picture"]).ravel()]
    whole += [sample["nested"][0]["at"].ravel(), [len(sample["nested"]), sample["index"], sample["label"]]]
    return dict(inputs=dict(x=torch.from_numpy(np.concatenate(whole))), data_sample=dict(label=sample["label"]))


def made(kind, **options):
    return kind(".", holdout=0.0, **options)


def tables(data, epochs=3):
    return torch.stack([data[epoch, i]["inputs"]["x"] for epoch in range(epochs) for i in range(len(data))])


def test_cached_samples_are_bit_equal_and_read_once():
    plain, kept = (made(Counted, transforms=[spoiled, packed], cache=cache) for cache in (None, "memory"))
    assert torch.equal(tables(plain), tables(kept))
    assert len(plain.reads) == 3 * COUNT
    assert kept.reads == list(range(COUNT))


def test_fixed_decoding_is_cached_and_random_decoding_is_not():
    for fixed, calls in ((True, COUNT), (False, 3 * COUNT)):
        decoded = Decoded(fixed)
        plain, kept = (
            made(Counted, transforms=[one, spoiled], cache=cache)
            for one, cache in ((Decoded(fixed), None), (decoded, "memory"))
        )
        for epoch in range(3):
            for i in range(COUNT):
                assert np.array_equal(plain[epoch, i]["frames"], kept[epoch, i]["frames"])
        assert decoded.calls == calls
        assert kept.reads == list(range(COUNT))


def test_label_overrides_and_bad_samples_are_as_without_a_cache():
    for kind in (Counted, Rotten):
        found = []
        for cache in (None, "memory"):
            data = made(kind, transforms=[packed], cache=cache, seed=3)
            data.skip_bad = kind is Rotten
            data.shuffle_labels()
            found.append(
                [
                    (one["inputs"]["x"].tolist(), one.get("bad"))
                    for _ in range(2)
                    for one in map(data.__getitem__, range(COUNT))
                ]
            )
        assert found[0] == found[1]


def test_a_mixture_caches_the_parts_with_a_cache(monkeypatch):
    monkeypatch.setitem(DATASETS.module_dict, "Counted", Counted)
    own = dict(type="Counted", data_root=".", holdout=0.0, transforms=[packed])
    data = Mixture(dict(a=own | dict(cache="memory"), b=own), seed=0)
    for epoch in range(2):
        for i in range(len(data)):
            data[epoch, i]
    parts = [cast(Counted, part) for part in data.parts.values()]
    assert [len(part.reads) for part in parts] == [COUNT, 2 * COUNT]
    tight = Mixture(dict(a=own | dict(cache="memory", cache_limit="1K")), seed=0)
    with pytest.raises(DataError, match="cache='memory' would need"):
        tight.check_memory(0)


def test_batches_are_the_same_with_workers():
    plain, kept = (made(Counted, transforms=[spoiled, packed], cache=cache) for cache in (None, "memory"))
    orders = Batches(COUNT, 4, True), Batches(COUNT, 4, True)
    loaders = [Loader(data, "train", order, 2, 60.0) for data, order in zip((plain, kept), orders)]
    for epoch in range(3):
        for order in orders:
            order.set_epoch(epoch)
        for one, other in zip(*loaders):
            assert torch.equal(one["inputs"]["x"], other["inputs"]["x"])


def test_too_large_or_unpicklable_samples_raise_an_error_before_training():
    data = made(Counted, cache="memory", cache_limit="5K")
    with pytest.raises(DataError) as error:
        data.check_memory(0)
    assert str(error.value) == (
        "cache='memory' would need about 0 MiB, 12 samples of Counted, but cache_limit is 0 MiB. Raise it, use fewer "
        "workers, or remove cache."
    )
    roomy = made(Counted, cache="memory", cache_limit="30K")
    roomy.check_memory(1)
    with pytest.raises(DataError, match="in each of 2 workers"):
        roomy.check_memory(2)
    with pytest.raises(DataError, match="samples of .* that cannot .* Remove cache"):
        made(Open, cache="memory").check_memory(0)
    made(Rotten, cache="memory").check_memory(0)


def test_the_loader_checks_the_limit(monkeypatch):
    monkeypatch.setitem(DATASETS.module_dict, "Counted", Counted)
    data = dict(type="Counted", data_root=".", split="train", cache="memory", cache_limit="1K")
    with pytest.raises(DataError, match="Raise it, use fewer workers"):
        build_loader(config(train_dataloader=dict(batch_size=2, dataset=data)), "train")


def test_samples_above_the_limit_are_read_each_time_with_a_warning():
    data = made(Larger, transforms=[spoiled, packed], cache="memory", cache_limit="30K")
    data.check_memory(0)
    with pytest.warns(UserWarning, match=r"is full with \d+ samples") as told:
        found = tables(data)
    assert len(told) == 1
    assert torch.equal(found, tables(made(Larger, transforms=[spoiled, packed])))
    assert data.memory is not None
    assert 0 < data.memory.size <= 30 * 1024


def test_the_limit_is_for_all_workers_together(monkeypatch):
    memory = Memory("1000")
    monkeypatch.setattr("ndformer.framework.data.memory.get_worker_info", lambda: type("Two", (), dict(num_workers=2)))
    memory.sample(0, lambda i: dict(a=bytes(400)))
    with pytest.warns(UserWarning, match="is full with 1 sample"):
        memory.sample(1, lambda i: dict(a=bytes(400)))


def test_a_run_can_resume_with_or_without_a_cache():
    given = config().to_dict()
    other = config().to_dict()
    other["train_dataloader"]["dataset"].update(cache="memory", cache_limit="1G")
    assert relevant_changes(given, other) == []


def test_every_dataset_except_mixture_has_a_cache():
    ours = {name: kind for name, kind in DATASETS.all().items() if kind.__module__.startswith("ndformer.")}
    assert [name for name, kind in ours.items() if "cache" not in arguments(kind)[0]] == ["Mixture"]
    with pytest.raises(ValueError, match="cache must be 'memory' or None, got 'disk'"):
        made(Counted, cache="disk")
