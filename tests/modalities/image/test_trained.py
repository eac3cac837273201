"""What is shown to a trained model comes as in its test."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from mmengine.config import Config
from PIL import Image
from torch import nn

from ndformer.framework.data import DataError
from ndformer.modalities.image.adapter import ImagePatches
from ndformer.modalities.image.trained import Preparation, files_of

RESIZED = [dict(type="Resize", size=(8, 12)), dict(type="PackImage", mean=[0.0], std=[1.0])]


def model(**modalities: nn.Module) -> Any:
    return SimpleNamespace(modalities=nn.ModuleDict(modalities))


def config(transforms):
    return Config(dict(test_dataloader=dict(dataset=dict(transforms=transforms))))


def test_a_file_goes_through_the_tests_transforms_in_the_models_channels(tmp_path):
    Image.fromarray(np.full((20, 30, 3), 51, np.uint8)).save(tmp_path / "x.png")
    batch = Preparation(config(RESIZED), model(image=ImagePatches(16, patch=4, channels=1)))(tmp_path / "x.png")
    torch.testing.assert_close(batch["inputs"]["image"], torch.full((1, 1, 8, 12), 0.2))
    assert batch["data_samples"] == [dict(label=-1, index=0, path=str(tmp_path / "x.png"))]


def test_a_model_of_something_else_says_so():
    for modalities in (dict(points=nn.Linear(3, 3)), dict(image=ImagePatches(16), points=nn.Linear(3, 3))):
        with pytest.raises(DataError, match=r"no input for this model \(.*Linear\): give the config of an image model"):
            Preparation(config(RESIZED), model(**modalities))


def test_folders_are_searched_and_files_taken_as_they_are(tmp_path):
    (tmp_path / "deep").mkdir()
    for name in ("b.png", "deep/a.JPG", "notes.txt"):
        (tmp_path / name).touch()
    assert files_of([tmp_path / "notes.txt", tmp_path]) == [tmp_path / n for n in ("notes.txt", "b.png", "deep/a.JPG")]
