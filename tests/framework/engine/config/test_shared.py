"""`dataset` in a config: options for the datasets of all three loaders."""

import pytest

from ndformer.framework.engine.config.load import load
from ndformer.framework.engine.config.shipped import config_path
from tests.framework.engine.conftest import refusal

UCF = config_path("ucf101_pape")
LOADERS = ["train_dataloader", "val_dataloader", "test_dataloader"]


def said(cfg, option):
    return [cfg[loader].dataset.get(option) for loader in LOADERS]


def test_one_key_sets_the_fold_of_all_three_loaders():
    cfg = load(UCF, ["dataset.fold=2"])
    assert said(cfg, "fold") == [2, 2, 2]
    assert cfg.dataset is None  # it is where it belongs
    small = load(UCF, ["dataset=dict(fold=3)", "test_dataloader.dataset.clips=5"], sample=True)
    assert said(small, "fold") == [3, 3, 3]


def test_what_a_loader_says_itself_counts_more_in_whatever_order(write):
    options = ["test_dataloader.dataset.clips=9", "dataset.clips=2"]
    assert said(load(UCF, options), "clips") == [2, 2, 9]
    below = write('_base_ = ["ucf101_pape"]\ndataset = dict(clips=2)\ntest_dataloader = dict(dataset=dict(clips=9))')
    above = write('_base_ = ["x.py"]\ndataset = dict(fold=3)', "y.py")
    assert said(load(below), "clips") == [2, 2, 9]
    assert (said(load(above), "clips"), said(load(above), "fold")) == ([2, 2, 9], [3, 3, 3])


def test_another_type_keeps_splits_and_transforms_and_has_no_sample_of_the_one_before(write):
    whole = "dataset=dict(_delete_=True, type='VideoFolder', clips=2)"
    before = load(UCF)
    for cfg in (load(UCF, [whole]), load(write(f'_base_ = ["ucf101_pape"]\n{whole}'))):
        assert said(cfg, "type") == ["VideoFolder"] * 3
        assert said(cfg, "split") == ["train", "val", "test"]
        assert said(cfg, "transforms") == said(before, "transforms")
        assert said(cfg, "val_groups") == [None] * 3
        assert cfg.sample is None


def test_the_small_version_and_versions_have_it_too(write):
    path = write(
        '_base_ = ["ucf101_pape"]\nsample = dict(dataset=dict(fold=3))\nversions = dict(two=dict(dataset=dict(fold=2)))'
    )
    assert said(load(path), "fold") == [None] * 3
    assert said(load(path, sample=True), "fold") == [3, 3, 3]
    assert said(load(path, ["preset=two"]), "fold") == [2, 2, 2]
    assert said(load(path, ["sample.dataset.fold=1"], sample=True), "fold") == [1, 1, 1]


@pytest.mark.parametrize(
    "name, option, sample",
    [("custom_clouds", "columns='x y z'", "ModelNet40"), ("custom_molecules", "tested=0.2", "QM9")],
)
def test_options_that_the_sample_s_type_lacks_are_those_of_the_data_alone(name, option, sample):
    cfg = load(config_path(name), [f"dataset.{option}"])
    key = option.partition("=")[0]
    assert said(cfg, key) != [None] * 3
    small = load(config_path(name), sample=True)
    assert said(small, "type") == [sample] * 3
    assert said(small, "split") == ["train", "val", "test"]
    text = refusal(load, config_path(name), [f"sample.dataset.{option}"])
    assert f"sample.train_dataloader.dataset.{key}: nothing reads it" in text


def test_a_run_s_config_says_it_loader_by_loader_and_reads_back(write):
    cfg = load(UCF, ["dataset.fold=2"])
    again = load(write(cfg.pretty_text))
    assert again.to_dict() == cfg.to_dict()


@pytest.mark.parametrize(
    "option, sentence",
    [
        ("fold=2", "fold: nothing reads it, did you mean dataset.fold?"),
        ("data.fold=2", "data: nothing reads it, did you mean dataset.fold?"),
        ("dataset.fol=2", "train_dataloader.dataset.fol: nothing reads it, did you mean fold?"),
        ("dataset=UCF", "train_dataloader.dataset: a dataset is written dict(type='NAME', ...), got 'UCF'"),
        ("train_dataloader.dataset.fold=2", "(dataset.fold sets all)"),
        ("model.encodng=NoPE", "did you mean model.backbone.encoding?"),
        ("backbone.depth=3", "did you mean model.backbone.depth"),
        ("train.batch_size=8", "did you mean train_dataloader.batch_size?"),
        ("batch_size=8", "did you mean train_dataloader.batch_size?"),
        ("epochs=3", "did you mean train_cfg.max_epochs?"),
        ("optimzer.lr=3", "optimzer: nothing reads it, did you mean optimizer?"),
        ("sample.model.backbone.dephts=2", "did you mean depth?"),
        ("train_dataloader.dataset.transforms.0.togethr=3", "did you mean together?"),
    ],
)
def test_a_mistaken_place_at_any_depth_is_told_with_the_one_that_was_meant(option, sentence):
    assert sentence in refusal(load, UCF, [option]).splitlines()[0]
