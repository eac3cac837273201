"""`data_root` is set once, and datasets without their own use it."""

from pathlib import Path

import pytest
from mmengine.config import Config

from ndformer.framework.data.dataset import SPLITS, rooted
from ndformer.framework.data.mixture import Mixture
from ndformer.framework.data.stand_ins import MARK
from ndformer.framework.engine.building import _data_folders, prepare_data
from ndformer.framework.engine.config.differences import check_resumable, relevant_changes
from ndformer.framework.engine.config.inherit import read
from ndformer.framework.engine.config.load import load
from ndformer.framework.engine.config.text import format_config
from ndformer.framework.engine.training.loading import build_dataset
from ndformer.framework.errors import DataError
from ndformer.framework.registry import DATASETS
from tests.framework.engine.conftest import CIFAR, refusal
from tests.programs import CONFIGS
from tests.soak.tiny import register


def as_once_saved(cfg):
    """Return the settings of an old run, which repeat `data_root` in every dataset."""
    settings = cfg.to_dict()
    for split in SPLITS:
        dataset = settings[f"{split}_dataloader"]["dataset"]
        for one in dataset.get("parts", dict(all=dataset)).values():
            one.setdefault("data_root", settings["data_root"])
    return settings


def roots(cfg):
    return [rooted(cfg[f"{split}_dataloader"].dataset, cfg.data_root)["data_root"] for split in SPLITS]


def test_datasets_follow_the_data_root(write, on_cifar):
    assert roots(load(CIFAR)) == ["data/cifar10"] * 3
    assert roots(load(CIFAR, ["data_root=/x"])) == ["/x"] * 3
    assert roots(load(on_cifar("data_root = 'y'"))) == ["y"] * 3
    resolved = write(load(CIFAR).pretty_text, "resolved.py")
    assert roots(load(resolved, ["data_root=/x"])) == ["/x"] * 3
    assert roots(load(resolved, sample=True)) == [load(CIFAR).sample.data_root] * 3


def test_datasets_that_repeat_the_data_root_follow_too(write):
    loader = "dict(dataset=dict(type='CIFAR10', data_root=data_root))"
    loaders = "".join(f"{split}_dataloader = {loader}\n" for split in ("train", "val", "test"))
    write(f"data_root = 'a'\n{loaders}", "base.py")
    found = read(write("_base_ = 'base.py'\ndata_root = 'b'"))
    assert found["train_dataloader"]["dataset"] == dict(type="CIFAR10")
    assert found["data_root"] == "b"


def test_a_dataset_may_have_its_own_data_root(on_cifar):
    path = on_cifar("test_dataloader = dict(dataset=dict(data_root='other'))")
    assert roots(load(path, ["data_root=/x"])) == ["/x", "/x", "other"]


def test_a_data_root_that_no_dataset_follows_is_refused():
    own = [f"{split}_dataloader.dataset.data_root=own" for split in ("train", "val", "test")]
    assert refusal(load, CIFAR, own).startswith("data_root: nothing reads it")
    assert roots(load(CIFAR, [*own, "data_root=None", "sample=None"])) == ["own"] * 3


@pytest.mark.parametrize("sample", [False, True])
def test_a_config_that_a_run_once_saved_is_the_same_as_now(write, sample):
    cfg = load(CIFAR, ["seed=3"], sample=sample)
    saved = write(format_config(as_once_saved(cfg)), "saved.py")
    assert "data_root" in read(saved)["train_dataloader"]["dataset"]
    again = load(saved)
    assert again.to_dict() == cfg.to_dict()
    assert again.pretty_text == cfg.pretty_text
    assert roots(load(saved, ["data_root=/x"])) == ["/x"] * 3


def test_a_run_goes_on_from_settings_that_were_once_saved(capsys):
    cfg = load(CIFAR)
    state = dict(settings=as_once_saved(cfg), epoch=1, processes=1)
    check_resumable(cfg, state, False)
    assert capsys.readouterr().out == ""
    assert relevant_changes(state["settings"], cfg.to_dict()) == []
    elsewhere = load(CIFAR, ["data_root=/x"])
    before = str(Path("data/cifar10").absolute())
    assert relevant_changes(state["settings"], elsewhere.to_dict()) == [("data_root", before, "/x")]
    with pytest.raises(DataError, match="data_root: was '/.*', is '/x'$"):
        check_resumable(elsewhere, state, False)


@pytest.mark.parametrize("change", ["sample.data_root=/elsewhere", "versions.flips.train_cfg.max_epochs=3"])
def test_a_run_goes_on_where_the_choices_that_it_did_not_make_have_changed(change):
    """A checkout in another folder has its sample elsewhere, which a run on other data does not use."""
    cfg = load(CIFAR)
    changed = load(CIFAR, [change])
    assert changed.to_dict() != cfg.to_dict()
    check_resumable(changed, dict(settings=cfg.to_dict(), epoch=1, processes=1), False)


def in_turn(**image):
    """Return the config of a mixture with another image dataset."""
    dataset = dict(parts=dict(image=dict(_delete_=True, **image)))
    own = format_config({f"{split}_dataloader": dict(dataset=dataset) for split in SPLITS})
    return f"_base_ = [{str(CONFIGS / 'joint_sample.py')!r}]\n{own}"


def test_parts_of_a_mixture_follow_too(write):
    part = dict(type="CIFAR10", transforms=[dict(type="PackImage")])
    cfg = load(write(in_turn(**part) + "data_root = 'here'"))
    assert cfg.train_dataloader.dataset.parts.image == part
    assert cfg.train_dataloader.dataset.parts.points.data_root == "data/samples/modelnet40"
    assert load(write(format_config(as_once_saved(cfg)), "saved.py")).to_dict() == cfg.to_dict()
    missing = [f"{split}_dataloader.dataset.parts.image.data_root is missing: CIFAR10 needs it" for split in SPLITS]
    assert refusal(load, write(in_turn(**part))).splitlines() == missing
    assert refusal(load, CONFIGS / "joint_sample.py", ["data_root=/x"]).startswith("data_root: nothing reads it")


def test_a_mixture_may_have_its_own_data_root(write):
    of_mixture = [f"{split}_dataloader.dataset.data_root=own" for split in SPLITS]
    cfg = load(write(in_turn(type="CIFAR10")), of_mixture)
    cfg.train_dataloader.dataset.pop("weights")
    assert _data_folders(cfg)[:2] == [Path("own"), Path("data/samples/modelnet40")]
    assert refusal(load, write(in_turn(type="CIFAR10")), [*of_mixture, "data_root=/x"]).startswith("data_root: nothing")


def test_what_is_built_is_where_its_place_says():
    register()
    parts = dict(a=dict(type="SoakSquares"), b=dict(type="SoakSquares", data_root="own"))
    loader = dict(dataset=dict(type="Mixture", parts=parts))
    data = build_dataset(Config(dict(train_dataloader=loader, data_root="here", seed=7)), "train")
    assert isinstance(data, Mixture)
    assert [(str(part.data_root), part.seed) for part in data.parts.values()] == [("here", 7), ("own", 7)]


def test_a_stand_in_is_looked_for_at_the_root(tmp_path):
    (tmp_path / MARK).touch()
    with pytest.raises(DataError, match=f"{tmp_path}: expected the dataset, got the generated stand-in"):
        prepare_data(load(CIFAR, [f"data_root={str(tmp_path)!r}"]), sample=False)


@pytest.mark.parametrize(
    "root, words",
    [
        ("None", "train_dataloader.dataset.data_root is missing: CIFAR10 needs it"),
        ("3", "data_root: takes a string that is not empty or None, got 3"),
    ],
)
def test_a_root_that_is_missing_or_none_is_refused(root, words):
    assert words in refusal(load, CIFAR, [f"data_root={root}", "sample=None"]).splitlines()


def test_a_dataset_that_is_nowhere_has_no_root_to_be_given(on_cifar, monkeypatch):
    class Nowhere:
        def __init__(self, split: str = "train", seed: int = 0) -> None: ...

    monkeypatch.setitem(DATASETS.module_dict, "Nowhere", Nowhere)
    path = on_cifar("test_dataloader = dict(dataset=dict(_delete_=True, type='Nowhere', split='test'))")
    assert "test_dataloader.dataset.data_root: nothing reads it" in refusal(load, path)
