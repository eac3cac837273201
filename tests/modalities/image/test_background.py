"""A model of white digits on black warns about a photo of ink on paper."""

import warnings

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageOps

from ndformer.framework.data.fingerprint import fingerprint
from ndformer.framework.engine.config.load import load
from ndformer.framework.engine.inputs import Preparation
from ndformer.framework.registry import DATASETS
from ndformer.modalities.image.background import background
from tests.programs import CONFIGS, SMALL, save_untrained, write_images


def drawing(paper: int = 0, ink: int = 255) -> Image.Image:
    image = Image.new("L", (60, 40), paper)
    ImageDraw.Draw(image).line([(20, 8), (40, 8), (28, 34)], fill=ink, width=5)
    return image


def folder(home, images):
    for label in "ab":
        (home / "train" / label).mkdir(parents=True)
        for i, image in enumerate(images):
            image.save(home / "train" / label / f"{i}.png")
    return DATASETS.create(dict(type="ImageFolder", data_root=home, val_is_test=True))


@pytest.mark.parametrize("paper, kind", [(0, "dark"), (60, "dark"), (130, "medium"), (200, "bright"), (255, "bright")])
def test_the_border_of_an_image_is_its_background(paper, kind):
    assert background(drawing(paper, 255 - paper)) == f"a {kind} background"


@pytest.mark.parametrize("papers, kinds", [((0, 20), ["a dark background"]), ((0, 255), [])])
def test_a_dataset_has_the_background_that_all_its_images_have(papers, kinds, tmp_path):
    dataset = folder(tmp_path, [drawing(paper, 128) for paper in papers])
    (tmp_path / "train" / "a" / "0.png").write_bytes(b"damaged")
    assert fingerprint(dataset)["like"] == kinds


def test_photos_have_none(tmp_path):
    """Noise has a medium background, as many photos have; one bright photo among them is enough to say nothing."""
    write_images(tmp_path, "ab", splits=("train",))
    dataset = DATASETS.create(dict(type="ImageFolder", data_root=tmp_path, val_is_test=True))
    assert dataset.likeness() == ["a medium background"]
    drawing(255, 0).save(tmp_path / "train" / "b" / "0.png")
    assert dataset.likeness() == []


def test_ink_on_paper_gives_a_warning_and_the_inverted_photo_none(tmp_path):
    cfg = load(CONFIGS / "mnist_small.py", SMALL)
    prepared = Preparation(cfg, save_untrained(tmp_path / "best.pth", cfg))
    prepared.train_fingerprint = fingerprint(folder(tmp_path, [drawing(), drawing(10)]))
    photo = drawing(220, 40).convert("RGB")
    photo.save(tmp_path / "photo.png")
    ImageOps.invert(photo).save(tmp_path / "inverted.png")
    with pytest.warns(
        UserWarning, match="photo.png has a bright background, and the training data have a dark background"
    ):
        first = prepared.sample((tmp_path / "photo.png",))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        second = prepared.sample((tmp_path / "inverted.png",))
    assert not np.allclose(first["inputs"]["image"], second["inputs"]["image"])
