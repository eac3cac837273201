"""Files from elsewhere run nothing, and are never read in unbounded time."""

import pickle

import numpy as np
import pytest
from PIL import EpsImagePlugin, Image

from ndformer.framework import foreign
from ndformer.framework.errors import DataError
from ndformer.framework.foreign.plain import SIZE
from ndformer.framework.registry import DATASETS
from ndformer.modalities.image.formats.files import open_image

EPS = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n%%EndComments\nshowpage\n"


@pytest.fixture
def yolo(tmp_path):
    for split in ("train", "val"):
        for kind in ("images", "labels"):
            (tmp_path / split / kind).mkdir(parents=True)
        Image.fromarray(np.zeros((8, 8, 3), np.uint8)).save(tmp_path / split / "images" / "a.png")
        (tmp_path / split / "labels" / "a.txt").write_text("0 0.5 0.5 0.5 0.5\n")
    return tmp_path


def read(root, text):
    (root / "data.yaml").write_text(text)
    return DATASETS.create(dict(type="YoloFolder", data_root=root, split="train"))


def test_names_are_read_as_lists_and_as_numbers_with_names(yolo):
    assert read(yolo, "names: [cat, dog]").classes == ["cat", "dog"]
    assert read(yolo, "nc: 2\nnames:\n  1: dog\n  0: cat\n").classes == ["cat", "dog"]


@pytest.mark.parametrize(
    "text",
    [
        "nc: !!python/object/apply:pathlib.Path.touch [{0}]",
        "names: !!python/object/new:os.system ['touch {0}']",
        "!!python/object/apply:os.system ['touch {0}']",
        "names: !!python/name:os.system",
    ],
)
def test_yaml_makes_no_objects_and_calls_nothing(yolo, text):
    with pytest.raises(DataError, match=r"data.yaml is not plain YAML \(could not determine a constructor for the tag"):
        read(yolo, text.format(yolo / "touched"))
    assert not (yolo / "touched").exists()


@pytest.mark.parametrize(
    "text, sentence",
    [
        ("[" * 100_000, "nests deeper than 20"),
        ("a0: &a0 [x, x]\n" + "".join(f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]\n" for i in range(1, 30)), "aliases"),
        ("names: [cat, dog", "is not plain YAML"),
        ("names: \x00", "is not plain YAML"),
    ],
)
def test_bombs_and_damage_are_a_sentence(yolo, text, sentence):
    with pytest.raises(DataError, match=sentence):
        read(yolo, text)


def test_what_is_no_text_or_too_large_is_a_sentence(tmp_path):
    (tmp_path / "a.yaml").write_bytes(pickle.dumps(dict(names=["cat"])))
    with pytest.raises(DataError, match="is not plain YAML"):
        foreign.plain_yaml(tmp_path / "a.yaml")
    with (tmp_path / "b.yaml").open("wb") as file:
        file.truncate(SIZE + 1)
    with pytest.raises(DataError, match="has 16777217 bytes"):
        foreign.plain_yaml(tmp_path / "b.yaml")


def test_an_eps_by_another_name_starts_no_program(tmp_path, monkeypatch):
    monkeypatch.setattr(EpsImagePlugin, "Ghostscript", lambda *given: pytest.fail("Ghostscript was started"))
    (tmp_path / "photo.jpg").write_bytes(EPS)
    with Image.open(tmp_path / "photo.jpg") as there:  # PIL would take it
        assert there.format == "EPS"
    with pytest.raises(DataError, match="it is none of JPEG, PNG"), foreign.image(tmp_path / "photo.jpg"):
        pass
    with pytest.raises(DataError, match="photo.jpg cannot be read as an image"):
        open_image(tmp_path / "photo.jpg")
