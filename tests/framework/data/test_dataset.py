"""Datasets: splits on disk, `per_class`, and random labels."""

import numpy as np
import pytest
from PIL import Image

from ndformer.framework.data.dataset import Dataset, Sample
from ndformer.framework.data.holdout import stratified
from ndformer.framework.errors import DataError, UnknownNameError
from ndformer.framework.registry import DATASETS
from ndformer.framework.registry.signature import arguments


class Uneven(Dataset):
    """30, 20 and 10 samples of three classes, shuffled."""

    classes = ["many", "some", "few"]

    def index(self, split) -> tuple[list, np.ndarray]:
        labels = np.random.default_rng(0).permutation(np.repeat([0, 1, 2], [30, 20, 10]))
        return list(range(60)), labels

    def read(self, record) -> Sample:
        return dict(image=Image.new("L", (2, 2)), label=0)


class Packed(Uneven):
    def read(self, record) -> Sample:
        return dict(inputs={}, data_sample=dict(label=0))


class Unlabeled(Uneven):
    def read(self, record) -> Sample:
        return dict(inputs={}, data_sample={})


class Found(Uneven):
    """A dataset with these splits on disk."""

    def __init__(self, *args, there, **rest):
        self.there = there
        super().__init__(*args, **rest)

    def on_disk(self):
        return {split: split.upper() for split in self.there}

    def index(self, split):
        records, labels = super().index(split)
        return [self.disk_splits[split]] * len(records), labels


@pytest.mark.parametrize(
    "there, train, val, test",
    [
        ("train val test", ("TRAIN", 60), ("VAL", 60), ("TEST", 60)),
        ("train test", ("TRAIN", 54), ("TRAIN", 6), ("TEST", 60)),
        ("train val", ("TRAIN", 54), ("TRAIN", 6), ("VAL", 60)),  # val on disk is the test set
    ],
)
def test_splits_on_disk_decide_what_is_held_out(there, train, val, test):
    def source(split, **options):
        """Return the source on disk, the number of records, and whether val is the test set on disk or by option."""
        data = Found("here", split, there=there.split(), **options)
        (name,) = set(data.records)
        return (name, len(data)), (data.test_is_val, data.val_is_test)

    test_is_val, has_val = there == "train val", there == "train val test"
    for split, expected in (("train", train), ("val", val), ("test", test)):
        assert source(split) == (expected, (test_is_val, False))
    assert source("val", val_is_test=True) == (val if has_val else test, (test_is_val, not has_val))
    assert source("train", val_is_test=True)[0] == ("TRAIN", 60)


def test_there_are_three_splits():
    with pytest.raises(ValueError, match="split must be train, val or test, got 'valid'"):
        Uneven("here", "valid")


def test_a_misspelled_option_of_the_base_class_has_a_suggestion(tmp_path):
    with pytest.raises(UnknownNameError, match="Coco has no option 'hold_out', did you mean 'holdout'?"):
        DATASETS.create(dict(type="Coco", data_root=tmp_path, hold_out=0.1))
    known, more = arguments(DATASETS.get("Coco"))
    assert {"data_root", "split", "transforms", "holdout", "val_is_test", "seed", "mosaic"} <= set(known)
    assert not more


def train(**options):
    return Uneven("here", holdout=0.2, **options)


@pytest.mark.parametrize("count", [1, 5, 8])
def test_per_class_selects_that_many_of_each_class(count):
    dataset = train(per_class=count)
    assert np.bincount(dataset.labels).tolist() == [count] * 3
    everything = train()
    labels = dict(zip(everything.records, everything.labels))
    assert [labels[record] for record in dataset.records] == dataset.labels.tolist()
    assert dataset.records == sorted(dataset.records)


def test_smaller_selections_are_subsets_and_depend_on_the_seed():
    kept = [set(train(per_class=count, seed=4).records) for count in (2, 5, 8)]
    assert kept[0] < kept[1] < kept[2]
    assert set(train(per_class=2, seed=4).records) == kept[0]
    assert set(train(per_class=2, seed=5).records) != kept[0]


def test_each_pass_each_sample_and_each_seed_has_random_numbers_of_its_own(monkeypatch):
    monkeypatch.setattr(Uneven, "changed", lambda self, sample, rng: tuple(rng.random(3)))
    monkeypatch.setattr(Uneven, "raw", lambda self, epoch, i: {})
    first, other = train(seed=1), train(seed=2)
    draws = [first[0, 0], first[0, 1], first[1, 0], first[1, 1], other[0, 0]]
    assert len(set(draws)) == len(draws)
    assert first[1, 1] == train(seed=1)[1, 1]


def test_validation_is_disjoint_and_independent_of_the_seed():
    val = [Uneven("here", "val", holdout=0.2, seed=seed).records for seed in (0, 1)]
    assert val[0] == val[1]
    assert not set(val[0]) & set(train(per_class=8, seed=1).records)


def test_a_class_of_one_sample_is_not_held_out_and_any_other_is():
    assert stratified(np.array([0] * 10 + [1]), 0.5).tolist() == [0, 2, 4, 7, 9]
    assert stratified(np.array([0] * 10 + [1] * 2), 0.01).tolist() == [0, 10]


def test_a_class_with_too_few_samples_raises_an_error():
    with pytest.raises(
        DataError, match=r"per_class needs 9 .* train split under here has 8 of 'few'. Use a smaller per_class"
    ):
        train(per_class=9)
    with pytest.raises(ValueError, match="per_class expects at least 1, got 0"):
        train(per_class=0)
    Boxed = type("Boxed", (Uneven,), dict(answer="Boxes"))  # samples without a class
    with pytest.raises(DataError, match=r"under here has 9. Use a smaller per_class"):
        Boxed("here", per_class=10)


@pytest.mark.parametrize("kind", [Uneven, Packed])
def test_random_labels_are_a_permutation_and_the_same_in_every_epoch(kind):
    datasets = [kind("here", seed=seed) for seed in (4, 4, 5)]
    for dataset in datasets:
        dataset.shuffle_labels()

    def labels(dataset, epoch):
        samples = [dataset[epoch, i] for i in range(len(dataset))]
        return [sample.get("data_sample", sample)["label"] for sample in samples]

    dealt = labels(datasets[0], 0)
    assert sorted(dealt) == sorted(datasets[0].labels)  # a permutation
    assert dealt == labels(datasets[1], 3)
    assert dealt != labels(datasets[2], 0)
    assert 0 < np.mean(dealt == datasets[0].labels) < 0.7


def test_random_labels_of_unlabeled_samples_raise_an_error():
    dataset = Unlabeled("here")
    dataset.shuffle_labels()
    with pytest.raises(DataError, match="samples of Unlabeled have no 'label': random_labels is for classification"):
        dataset[0]


def test_linked_folders_of_a_class_are_searched_and_circles_end(tmp_path):
    for split in ("train", "test"):
        for name in "ab":
            (tmp_path / "set" / split / name).mkdir(parents=True)
            Image.new("RGB", (4, 4)).save(tmp_path / "set" / split / name / "0.png")
    (tmp_path / "store").mkdir()
    for number in range(30):
        Image.new("RGB", (4, 4)).save(tmp_path / "store" / f"{number}.png")
    home = tmp_path / "set" / "train" / "a"
    (home / "more").symlink_to(tmp_path / "store")
    (home / "circle").symlink_to(home)
    data = DATASETS.create(dict(type="ImageFolder", data_root=tmp_path / "set", holdout=0.0))
    assert np.bincount(data.labels).tolist() == [31, 1]
