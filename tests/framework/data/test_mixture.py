"""Mixtures of datasets: names and replacements in each part, orders of epochs, and samples of several modalities."""

from collections import Counter
from typing import Any

import numpy as np
import pytest

from ndformer.framework.data.dataset import Dataset
from ndformer.framework.data.mixture import DropModality, Mixture, PerModality, TurnBatches
from ndformer.framework.errors import DataError
from ndformer.framework.registry import DATASETS, TRANSFORMS


class Counts(Dataset):
    """`count` numbers as samples; the val split on disk is the test set if `val` is set."""

    classes = ["number", "nothing"]

    def __init__(self, count: int, val: bool = False, split: str = "train", seed: int = 0, **options: Any) -> None:
        self.count, self.val = count, val
        super().__init__("nowhere", split, seed=seed, holdout=0.0, **options)

    def on_disk(self) -> dict[str, Any]:
        return dict.fromkeys(("train", "val") if self.val else ("train", "test"))

    def index(self, split: str) -> tuple[list[Any], np.ndarray]:
        return [f"{self.count}/{i}" for i in range(self.count)], np.zeros(self.count, np.int64)

    def read(self, record: str) -> dict[str, Any]:
        return dict(record=record)


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    DATASETS.get("CIFAR10")  # registers the other datasets first
    monkeypatch.setitem(DATASETS.module_dict, "Counts", Counts)


def mixture(**second: Any) -> Mixture:
    return Mixture(dict(a=dict(type="Counts", count=6), b=dict(type="Counts", count=20) | second), seed=0)


def test_names_replacements_and_absent_classes_are_those_of_the_part() -> None:
    data = mixture()
    assert [data.name(i) for i in (5, 6, 25)] == ["6/5", "20/0", "20/19"]
    assert list(data.candidates(24)) == [24, 25, *range(6, 24)]
    assert list(data.candidates(1)) == [1, 2, 3, 4, 5, 0]
    assert data.absent() == ["a: nothing", "b: nothing"]


def test_a_mixture_tests_on_val_where_any_part_does() -> None:
    assert mixture(val=True).test_is_val
    assert not mixture().test_is_val
    assert mixture(val_is_test=True).val_is_test
    assert not mixture().val_is_test


def test_an_epoch_has_other_turns_and_each_part_another_order() -> None:
    sampler, turns, orders = TurnBatches(mixture(), 3, shuffle=True), set(), set()
    for epoch in range(4):
        sampler.set_epoch(epoch)
        batches = [[i for _, i in batch] for batch in sampler]
        turns.add(tuple(batch[0] < 6 for batch in batches))
        orders.add(tuple(i for batch in batches for i in batch if i >= 6))
    assert len(turns) > 1
    assert len(orders) == 4


def test_a_modality_is_dropped_with_the_probability_each_as_often_and_never_the_last() -> None:
    drop, rng = DropModality(0.3), np.random.default_rng(0)
    sample = dict(inputs=dict(a=1, b=2, c=None), data_sample=dict(label=0))
    counts = Counter("".join(drop(sample, rng)["inputs"]) for _ in range(1000))
    assert counts["abc"] == pytest.approx(700, abs=50)
    assert counts["ac"] == pytest.approx(150, abs=40)
    assert counts["bc"] == pytest.approx(150, abs=40)
    alone = dict(inputs=dict(a=1, b=None))
    assert all(DropModality(1.0)(alone, rng) is alone for _ in range(5))


def test_each_modality_has_its_own_transforms_and_the_data_sample_has_the_common_values(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Pack:
        def __init__(self, name: str, factor: int) -> None:
            self.name, self.factor = name, factor

        def __call__(self, sample: Any, rng: np.random.Generator) -> Any:
            others = {key: value for key, value in sample.items() if key != self.name}
            return dict(inputs={self.name: self.factor * sample[self.name]}, data_sample=others)

    monkeypatch.setitem(TRANSFORMS.module_dict, "_Pack", Pack)
    step = PerModality({name: [dict(type="_Pack", name=name, factor=k)] for k, name in enumerate("abc", 2)})
    assert step(dict(a=1, c=1, label=5), np.random.default_rng(0)) == dict(
        inputs=dict(a=2, c=4), data_sample=dict(label=5)
    )
    with pytest.raises(DataError, match="x.json: expected at least one of a, b, c, got none"):
        step(dict(path="x.json"), np.random.default_rng(0))
