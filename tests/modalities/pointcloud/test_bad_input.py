"""Errors in scenes are reported in one line, from the files through the config to the model."""

import numpy as np
import pytest
import torch

from ndformer.framework.data.batches import collate
from ndformer.framework.engine.config.load import load
from ndformer.framework.engine.training.loading import build_dataset
from ndformer.framework.errors import DataError
from ndformer.framework.registry import MODELS
from tests.modalities.pointcloud.test_configs import ALL_OF_TRAIN
from tests.modalities.pointcloud.test_scenes import write

SCENES = "configs/scannet_pape.py"


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    return MODELS.create(load(SCENES, [], None, True).model)


def scenes(home, options=(), split="train", sample=True, **room):
    """Write two scenes to train and to val, and open them with the dataset of the config."""
    for name in ("train/scene0000_00", "train/scene0001_00", "val/scene0000_00", "val/scene0001_00"):
        write(home / name, **dict(n=200) | room)
    cfg = load(SCENES, [f"data_root={str(home)!r}", *ALL_OF_TRAIN, *options], None, sample)
    return build_dataset(cfg, split)


def far_away(meters):
    coord = np.random.default_rng(0).uniform(0, 2, (200, 3)).astype(np.float32)
    coord[7] = meters
    return coord


WRONG = {
    "too far for a number of its cell": (
        dict(coord=far_away(1e9)),
        "cells of 0.1, too many to number.*remove outliers",
    ),
    "too far for a code of 63 bits": (dict(coord=far_away(1e4)), "spans .* voxels .* 16 bits allow 65536.*remove"),
    "all in one voxel": (dict(coord=np.full((200, 3), 0.31, np.float32)), "lie in one voxel.*remove such samples"),
    "no normals": (dict(normal=None), r"scene0000_00 has no normals.*missing=dict\(normals=0\.0\) a fill value"),
    "no colors": (dict(color=None), r"scene0000_00 has no colors.*missing=dict\(colors=0\.0\) a fill value"),
    "a label outside that wraps around": (
        dict(segment20=np.full(200, 2**64 - 1, np.uint64)),
        f"has the label {2**64 - 1}, but there are 20",
    ),
    "coordinates beyond float32": (dict(coord=far_away(1).astype("f8") * 1e300), "200 points, of which 0 are finite"),
}


@pytest.mark.parametrize("room, message", WRONG.values(), ids=list(WRONG))
def test_a_bad_scene_is_reported_in_one_line(model, tmp_path, room, message):
    data = scenes(tmp_path, **room)
    with pytest.raises(DataError, match=message) as error:
        model.train()(**collate([data[0]]), mode="loss")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("meters", [1e3, 1e6, 1e37])
def test_a_distant_point_is_reported_by_the_full_recipe(tmp_path, meters):
    """The size of the grid of an elastic distortion is checked before it is allocated."""
    always = [f"train_dataloader.dataset.transforms.{i}.p={p}" for i, p in ((1, 0), (8, 1))]
    coord = far_away(meters)
    coord[8] = -meters
    data = scenes(tmp_path, always, sample=False, coord=coord)
    with pytest.raises(
        DataError, match=r"scene0000_00 spans .* too much for ElasticDistortion.*remove outliers"
    ) as error:
        data[0]
    assert "\n" not in str(error.value)


def test_missing_features_are_filled_from_the_config(model, tmp_path):
    at = "train_dataloader.dataset.transforms"
    last = len(load(SCENES, [], None, True).train_dataloader.dataset.transforms) - 1
    data = scenes(tmp_path, [f"{at}.{last}.missing=dict(colors=0.5,normals=0.25)"], color=None, normal=None)
    sample = data[0]
    assert sample["inputs"]["points"][:, 3:].unique(dim=0).tolist() == [[0.5] * 3 + [0.25] * 3]
    assert model.train()(**collate([sample, data[1]]), mode="loss")["loss"].isfinite()


def test_an_error_names_the_empty_sample_of_a_batch(model, tmp_path, monkeypatch):
    monkeypatch.setattr(model, "mix", None)  # Mix3D may put it into another, which harms nothing
    data = scenes(tmp_path)
    empty = data[1]
    empty["inputs"]["points"] = empty["inputs"]["points"][:0]
    empty["data_sample"]["labels"] = empty["data_sample"]["labels"][:0]
    for mode in ("loss", "predict"):
        with pytest.raises(
            DataError, match="sample 1 of a batch has no points: remove it, or the transform that removed them"
        ):
            model.eval()(**collate([data[0], empty]), mode=mode)
    with pytest.raises(DataError, match="has no points"):
        model.eval()(**collate([empty]), mode="predict")


def test_a_scene_of_one_voxel_is_predicted(model, tmp_path):
    """Batch norm over points is computed in training only."""
    data = scenes(tmp_path, split="test", coord=np.full((200, 3), 0.31, np.float32))
    (found,) = model.eval()(**collate([data[0]]), mode="predict")
    assert found.predicted.shape == (200,)
    assert found.predicted.unique().numel() == 1
