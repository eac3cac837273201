"""Loaders read their own split, and splits of one dataset do not overlap."""

import pytest

from ndformer.framework.engine.config.load import load
from tests.framework.engine import conftest
from tests.programs import CONFIGS

OTHERS = "or val_dataloader.any_split=True if this is intended"


def refusal(name: str, *options: str, sample: bool = False) -> list[str]:
    return conftest.refusal(load, CONFIGS / f"{name}.py", options, sample=sample).splitlines()


def without_split(loader: str) -> str:
    return f"{loader}.dataset=dict(_delete_=True,type=CIFAR10,transforms=[dict(type=PackImage)])"


def test_a_loader_that_does_not_say_its_split_does_not_read_the_training_set():
    for split in ("val", "test"):
        said = refusal("cifar10_pape", without_split(f"{split}_dataloader"))
        assert said[0].startswith(f"{split}_dataloader.dataset.split is missing, and would be 'train'. Write '{split}'")
    assert load(CONFIGS / "cifar10_pape.py", [without_split("train_dataloader")])


@pytest.mark.parametrize("loader, read", [("test", "train"), ("test", "val"), ("val", "test"), ("train", "test")])
def test_a_loader_does_not_read_the_split_of_another_unless_that_is_said(loader, read):
    option = f"{loader}_dataloader.dataset.split={read}"
    said = refusal("cifar10_pape", option)
    assert said[0].startswith(f"{loader}_dataloader.dataset.split is '{read}'. Write '{loader}', or {loader}_")
    assert load(CONFIGS / "cifar10_pape.py", [option, f"{loader}_dataloader.any_split=True"])


@pytest.mark.parametrize(
    "name, option, sentence",
    [
        ("cifar10_pape", "val_dataloader.dataset.holdout=0.2", "holdout: is 0.2, and 0.1 for train"),
        ("cifar10_pape", "train_dataloader.dataset.val_is_test=True", "val_is_test: is False, and True for train"),
        ("imagenet1k_pape", "val_dataloader.dataset.holdout=0.05", "holdout: is 0.05, and 0.01 for train"),
        ("ucf101_pape", "val_dataloader.dataset.val_groups=2", "val_groups: is 2, and 1 for train"),
    ],
)
def test_splits_of_one_set_are_cut_in_one_way(name, option, sentence):
    (said,) = refusal(name, option)
    assert said.startswith(f"val_dataloader.dataset.{sentence}, so they would share samples. Write the same in both")
    assert said.endswith(OTHERS)
    assert load(CONFIGS / f"{name}.py", [option, "val_dataloader.any_split=True"])


@pytest.mark.parametrize("name, options", [("ucf101_pape", ["fold=2"]), ("nmnist_pape", ["folds=5", "fold=2"])])
def test_a_fold_is_said_for_all_three_loaders_or_for_none(name, options):
    def of(*splits):
        return [f"{split}_dataloader.dataset.{option}" for split in splits for option in options]

    for some in (["train"], ["train", "val"], ["test"]):
        assert "they would share samples" in refusal(name, *of(*some))[0]
    assert load(CONFIGS / f"{name}.py", of("train", "val", "test"))


def test_the_parts_of_a_mixture_are_held_to_the_same():
    part = "val_dataloader.dataset.parts.image"
    assert f"{part}.split is 'test'. Write 'val'" in refusal("joint_sample", f"{part}.split=test")[0]
    assert f"{part}.holdout: is 0.3, and 0.1 for train" in refusal("joint_sample", f"{part}.holdout=0.3")[0]


def test_the_small_version_is_held_to_the_same():
    option = "sample.val_dataloader.dataset.holdout=0.5"
    assert refusal("cifar10_pape", option)[0].startswith("sample.val_dataloader.dataset.holdout: is 0.5")
