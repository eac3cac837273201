"""Pictures of extreme sides: no transform makes many more pixels than its own size has."""

from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
from PIL import Image

from ndformer.framework.errors import DataError
from ndformer.framework.registry import TRANSFORMS
from ndformer.modalities.image.formats.in_memory import to_image
from ndformer.modalities.image.transforms import images
from ndformer.modalities.image.transforms.box_augment import mosaic
from ndformer.modalities.image.transforms.images import FILTERS, resized_piece

MOST = 2**21  # pixels
RECIPES: list[dict[str, Any]] = [
    dict(type="EvalCrop"),
    dict(type="EvalCrop", size=(224, 448)),
    dict(type="Resize", size=(224, 224)),
    dict(type="CenterCrop", size=224),
    dict(type="RandomCrop", size=32, padding=16),
    dict(type="RandomResizedCrop"),
    dict(type="KeepAspect", longest=224, multiple_of=16),
    dict(type="Flip", p=1.0),
    dict(type="FlipBoxes", p=1.0),
    dict(type="RandAugment"),
    dict(type="RandAugmentBoxes"),
    dict(type="Letterbox", size=512),
    dict(type="LargeScaleJitter", size=512),
    dict(type="PackImage"),
    dict(type="PackBoxes"),
    dict(type="PackMask"),
]
IMAGE_ALONE = {"EvalCrop", "CenterCrop", "RandomCrop", "RandomResizedCrop", "Flip", "RandAugment"}  # refuse a mask
SIDES = [(1, 1000), (1000, 1), (3, 9000), (100_000, 2)]  # width, height


@pytest.fixture
def most_pixels(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grow by the pixels of every picture that Pillow makes."""
    made = [0]
    new = Image.Image._new

    def counted(self: Image.Image, core: Any) -> Image.Image:
        made.append(core.size[0] * core.size[1])
        return new(self, core)

    monkeypatch.setattr(Image.Image, "_new", counted)
    return made


def sample(width: int, height: int) -> dict[str, Any]:
    mask = Image.new("L", (width, height))
    return dict(image=Image.new("RGB", (width, height), (9, 99, 199)), mask=mask, path="a.png")


def test_all_transforms_of_pictures_are_tried() -> None:
    TRANSFORMS.create(dict(type="EvalCrop"))
    own = {
        name for name, one in TRANSFORMS.module_dict.items() if one.__module__.startswith("ndformer.modalities.image")
    }
    assert {recipe["type"] for recipe in RECIPES} == own


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: f"{recipe['type']}{recipe.get('size', '')}")
def test_extreme_sides_make_few_pixels(recipe: dict[str, Any], most_pixels: list[int]) -> None:
    """Issue 44.23."""
    for sides in SIDES:
        refused = pytest.raises(DataError, match="less than half a patch") if recipe["type"] == "KeepAspect" else None
        with refused or nullcontext():
            given = sample(*sides)
            if recipe["type"] in IMAGE_ALONE:
                del given["mask"]
            TRANSFORMS.create(recipe)(given, np.random.default_rng(0))
    assert max(most_pixels, default=0) <= MOST


def test_a_video_and_cameras_of_extreme_sides_make_few_pixels(most_pixels: list[int]) -> None:
    """Issue 44.23."""
    rng = np.random.default_rng(0)
    frames = np.zeros((2, 1000, 1, 3), np.uint8)
    crop = TRANSFORMS.create(dict(type="EachFrame", transforms=[dict(type="EvalCrop")]))
    assert crop(dict(video=frames), rng)["video"].shape == (2, 224, 224, 3)
    cameras = TRANSFORMS.create(dict(type="CameraImages", size=(32, 64), scale=(500.0, 500.0)))
    given = dict(images=[Image.new("RGB", (1000, 1))], intrinsics=np.eye(3)[None], image_transform=np.eye(3)[None])
    assert cameras(given, rng)["images"][0].size == (64, 32)
    assert max(most_pixels) <= MOST


def each_frame(size: int) -> Any:
    return TRANSFORMS.create(dict(type="EachFrame", transforms=[dict(type="Resize", size=(size, size))]))


BOUNDED: dict[str, Any] = {
    "a resize of the shorter side": lambda: TRANSFORMS.create(dict(type="Resize", size=224))(sample(1, 9000), None),
    "a tensor": lambda: TRANSFORMS.create(dict(type="PackImage"))(sample(600, 600), None),
    "a mosaic": lambda: mosaic([sample(600, 600)], np.random.default_rng(0)),
    "frames": lambda: each_frame(90)(dict(video=np.zeros((200, 4, 4, 3), np.uint8)), np.random.default_rng(0)),
    "a picture of Pillow's": lambda: to_image(Image.new("1", (2000, 2000)), "RGB"),
}


@pytest.mark.parametrize("name", BOUNDED)
def test_large_results_are_a_sentence(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Issue 44.23: before memory is taken for them."""
    monkeypatch.setenv("NDFORMER_FILE_LIMIT", "4M")
    with pytest.raises(DataError, match="would take .* MiB of memory, and one file may take 4"):
        BOUNDED[name]()


def test_a_piece_is_the_same_where_the_whole_is_not_resized(monkeypatch: pytest.MonkeyPatch) -> None:
    """Issue 44.23: up to rounding, to one level of 255."""
    rng = np.random.default_rng(0)
    picture = Image.fromarray(rng.integers(0, 256, (70, 300, 3), dtype=np.uint8))
    for resample in (FILTERS["bilinear"], FILTERS["bicubic"]):
        for size in ((64, 200), (900, 700), (150, 9)):
            for left, top, height, width in ((0, 0, 50, 50), (-10, -3, 90, 100), (30, 2, 16, 16), (2000, 0, 5, 5)):
                monkeypatch.setattr(images, "MAX_RESIZED", 2**24)
                expected = np.asarray(resized_piece(picture, size, left, top, height, width, resample)).astype(int)
                monkeypatch.setattr(images, "MAX_RESIZED", 0)
                found = np.asarray(resized_piece(picture, size, left, top, height, width, resample))
                assert np.abs(found - expected).max() <= 1
