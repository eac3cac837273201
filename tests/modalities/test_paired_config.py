"""configs/paired_sample.py: a view and a cloud in one space, any of them missing."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch

from ndformer.framework.data.batches import collate
from ndformer.framework.engine.config.load import load
from ndformer.framework.engine.training.loading import build_dataset
from ndformer.framework.registry import MODALITIES, MODELS, STAND_INS

CONFIG = Path(__file__).parents[2] / "configs" / "paired_sample.py"


@pytest.fixture(scope="module")
def cfg(tmp_path_factory):
    home = tmp_path_factory.mktemp("paired")
    STAND_INS.get("paired")().write(home, 0, train=2, test=1, points=400)
    return load(CONFIG, [f"data_root={str(home)!r}", "model.backbone.dim=24", "model.backbone.depth=1"])


@pytest.fixture(scope="module")
def model(cfg):
    torch.manual_seed(0)
    return MODELS.create(cfg.model)


@pytest.mark.parametrize("kind", [int, float])
def test_an_image_may_stand_anywhere_in_space(kind):
    first, row, column = [[kind(v) for v in vector] for vector in ((1, 2, 3), (0, -1, 0), (2, 0, 1))]
    adapter = MODALITIES.create(dict(type="ImagePatches", patch=4, plane=(first, row, column)), dim=8)
    where = adapter(torch.randn(2, 3, 8, 12)).where
    expected = [[1 + 2 * c, 2 - r, 3 + c] for r in range(2) for c in range(3)]
    assert where.positions[0, 1:].tolist() == expected
    assert where.placed.tolist() == [[False] + [True] * 6]  # the class token has no place
    with pytest.raises(ValueError, match="plane must be three vectors .first patch, row step, column step"):
        MODALITIES.create(dict(type="ImagePatches", plane=(first, row)), dim=8)


def test_patches_stand_before_the_points_that_they_show(cfg, model):
    """The view is the square from -1 to 1, x to the right and y up; both modalities count in the same unit."""
    data = build_dataset(cfg, "test")
    tokens = model.tokens(collate([data[0]])["inputs"])
    image, points = (tokens.where.positions[0, tokens.modality[0] == kind] * 0.25 for kind in (0, 1))
    assert (len(image), len(points)) == (36, 48)
    for n, place in enumerate(image.tolist()):
        row, column = divmod(n, 6)
        assert place == pytest.approx([(column + 0.5) / 3 - 1, 1 - (row + 0.5) / 3, 1.0])
    raw = data.read(data.records[0])
    seen = raw["points"][[np.abs(raw["points"] - p).sum(1).argmin() for p in points.numpy()]]
    np.testing.assert_allclose(points.numpy(), seen, atol=1e-6)  # the cloud's own places, in the eye's frame


def test_it_learns_from_samples_that_lack_any_of_the_two(cfg, model):
    data = build_dataset(cfg, "train")
    samples = [data[epoch, i] for epoch in range(3) for i in range(len(data))]
    have = [frozenset(sample["inputs"]) for sample in samples]
    both, image, points = (
        have.count(frozenset(names)) / len(have) for names in (["image", "points"], ["image"], ["points"])
    )
    assert both == pytest.approx(0.5, abs=0.15)
    assert image == pytest.approx(points, abs=0.15)
    assert both + image + points == 1
    loss = model(**collate(samples[:24]), mode="loss")["loss"]
    assert loss.item() == pytest.approx(math.log(12), abs=1e-5)
    loss.backward()
    assert model.head.linear.weight.grad.abs().sum() > 0
