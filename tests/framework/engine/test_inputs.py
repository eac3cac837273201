"""User files are prepared as the test set."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from mmengine.config import Config
from PIL import Image
from torch import nn

from ndformer.framework.adapter import Adapter
from ndformer.framework.engine.inputs import FileSource, Preparation
from ndformer.framework.errors import DataError
from ndformer.framework.registry import MODALITIES

RESIZED = [dict(type="Resize", size=(8, 12)), dict(type="PackImage", mean=[0.0], std=[1.0])]
POINTS = [dict(type="PackPoints", features=[])]
IMAGE = dict(type="ImagePatches", patch=4, channels=1)
CLOUD = dict(type="PointPatches", centers=2, neighbors=2, features=0)


def model(joined: bool = False, **modalities: Any) -> Any:
    made = {n: one if isinstance(one, nn.Module) else MODALITIES.create(one, dim=16) for n, one in modalities.items()}
    return SimpleNamespace(modalities=nn.ModuleDict(made), joint_modalities=list(made) if joined else [])


def config(**dataset: Any) -> Config:
    typed = dict(type="ImageFolder") | dataset
    if "parts" in dataset:
        typed["parts"] = {name: dict(type="ImageFolder") | dict(part) for name, part in dataset["parts"].items()}
    return Config(dict(test_dataloader=dict(dataset=typed)))


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "deep").mkdir()
    for name in ("b.png", "deep/a.JPG"):
        Image.fromarray(np.full((20, 30, 3), 51, np.uint8)).save(tmp_path / name)
    np.savetxt(tmp_path / "b.xyz", np.eye(3))
    (tmp_path / "notes.md").touch()
    return tmp_path


def test_a_file_goes_through_the_tests_transforms_in_the_models_channels(folder):
    batch = Preparation(config(transforms=RESIZED), model(image=IMAGE))((folder / "b.png",))
    torch.testing.assert_close(batch["inputs"]["image"], torch.full((1, 1, 8, 12), 0.2))
    (sample,) = batch["data_samples"]
    assert sample | dict(frame=None) == dict(label=-1, index=0, path=str(folder / "b.png"), size=(20, 30), frame=None)
    assert sample["frame"].tolist() == [2.5, 2.5, 0, 0]  # from the input to the file


def test_folders_are_searched_and_files_taken_as_they_are(folder):
    prepared = Preparation(config(transforms=RESIZED), model(image=IMAGE))
    with pytest.warns(UserWarning, match="no modality of this model by their endings are skipped: 1 .md, 1 .xyz"):
        found = prepared.samples_in([folder / "notes.md", folder])
    assert found == [(folder / n,) for n in ("notes.md", "b.png", "deep/a.JPG")]


@pytest.mark.filterwarnings("ignore:.*are skipped")
def test_of_several_modalities_the_name_says_which(folder):
    parts = dict(image=dict(transforms=RESIZED), points=dict(transforms=POINTS))
    prepared = Preparation(config(parts=parts), model(image=IMAGE, points=CLOUD))
    kinds = [list(prepared(files)["inputs"]) for files in prepared.samples_in([folder])]
    assert kinds == [["image"], ["points"], ["image"]]
    with pytest.raises(
        DataError,
        match=r"notes.md: expected a name that ends as a modality of this model \(image: .jpg, .*; points: .*.ply",
    ):
        prepared((folder / "notes.md",))
    parts["image"]["transforms"] = [dict(type="PackImage", mean=[0.0], std=[1.0])]
    with pytest.raises(DataError, match=r'config "test_dataloader.dataset.parts.image.transforms=\[.*size=\(20, 32\)'):
        Preparation(config(parts=parts), model(image=IMAGE, points=CLOUD))((folder / "b.png",))


@pytest.mark.filterwarnings("ignore:.*are skipped")
def test_joined_files_of_one_name_are_one_sample(folder):
    chains = dict(image=RESIZED, points=POINTS)
    cfg = config(transforms=[dict(type="PerModality", chains=chains)])
    prepared = Preparation(cfg, model(joined=True, image=IMAGE, points=CLOUD))
    both, alone = prepared.samples_in([folder])
    assert both == (folder / "b.png", folder / "b.xyz")
    assert list(prepared(both)["inputs"]) == ["image", "points"]
    assert list(prepared(alone)["inputs"]) == ["image"]
    assert FileSource(prepared, [alone, both], []).picture(1).shape == (256, 384 + 3 * 256, 3)


def test_a_model_that_opens_nothing_says_so():
    with pytest.raises(DataError, match=r"Adapter opens no files: give it `endings` and open\(path\)"):
        Preparation(config(), model(points=Adapter())).samples_in([])


def test_two_files_of_one_modality_and_one_name_are_an_error(folder):
    (folder / "b.jpg").write_bytes((folder / "b.png").read_bytes())
    cfg = config(transforms=[dict(type="PerModality", chains=dict(image=RESIZED, points=POINTS))])
    prepared = Preparation(cfg, model(joined=True, image=IMAGE, points=CLOUD))
    with pytest.raises(DataError, match=r"b.png and .*b.jpg are both image of one sample. Rename one of them"):
        prepared.sample((folder / "b.png", folder / "b.jpg", folder / "b.xyz"))
