"""tools/browse_dataset.py: the sheet shows the samples as the model gets them, each under its class."""

import runpy
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from ndformer.framework.registry import DATASETS
from tools import browse_dataset
from tools.browse_dataset import CAPTION, TILE, dataset_options, sheet

SCRIPT = Path(browse_dataset.__file__)
PACK = dict(type="PackImage")


@pytest.fixture
def folder(tmp_path):
    """Images of 8 x 8 noise in three classes."""
    rng = np.random.default_rng(0)
    for split in ("train", "val", "test"):
        for name in ("ant", "bee", "cat"):
            for i in range(4):
                path = tmp_path / "set" / split / name / f"{i}.png"
                path.parent.mkdir(parents=True, exist_ok=True)
                Image.fromarray(rng.integers(0, 256, (8, 8, 3), dtype=np.uint8)).save(path)
    return tmp_path / "set"


def tile(page, column, row=0):
    left, top = column * (TILE + 4) + 2, row * (TILE + CAPTION + 4) + 2 + CAPTION
    return np.asarray(page)[top : top + TILE, left : left + TILE]


@pytest.mark.parametrize("transforms", [[], [PACK], [dict(type="Flip", p=1.0), PACK]])
def test_tiles_are_what_the_dataset_gives(transforms, folder):
    dataset = DATASETS.create(dict(type="ImageFolder", data_root=folder, transforms=transforms))
    plain = DATASETS.create(dict(type="ImageFolder", data_root=folder))
    page = sheet(dataset, 3)
    for column, number in enumerate((0, 5, 11)):  # spread over the classes
        pixels = np.asarray(plain[number]["image"])
        expected = pixels[:, ::-1] if len(transforms) == 2 else pixels
        np.testing.assert_array_equal(tile(page, column)[8::16, 8::16], expected)


def test_every_tile_has_its_classs_name(folder, monkeypatch):
    written = []
    monkeypatch.setattr(
        browse_dataset.ImageDraw.ImageDraw, "text", lambda self, place, text, **_: written.append((place, text))
    )
    sheet(DATASETS.create(dict(type="ImageFolder", data_root=folder)), 6)
    assert [text for _, text in written] == ["ant", "ant", "bee", "bee", "cat", "cat"]
    assert written[0][0] == (2, 2)
    assert written[4][0] == (2, 2 + TILE + CAPTION + 4)  # four to a row


def test_there_are_no_more_tiles_than_samples(folder):
    page = sheet(DATASETS.create(dict(type="ImageFolder", data_root=folder)), 100)
    assert page.size == (5 * (TILE + 4), 3 * (TILE + CAPTION + 4))  # 12 in rows of 5


def test_oblong_images_keep_their_shape(folder):
    transforms = [dict(type="Resize", size=(4, 8))]
    page = sheet(DATASETS.create(dict(type="ImageFolder", data_root=folder, transforms=transforms)), 1)
    assert (tile(page, 0)[TILE // 2 :] == 255).all()
    assert (tile(page, 0)[: TILE // 2] != 255).any(-1).mean() > 0.9


CONFIG = """
data_root = {root!r}
train_dataloader = dict(dataset=dict(type="ImageFolder", split="train", transforms=[dict(type="Flip")]))
test_dataloader = dict(dataset=dict(type="ImageFolder", data_root="elsewhere", split="test"))
"""


def test_a_config_says_what_to_show_and_options_change_it(folder, tmp_path):
    path = tmp_path / "config.py"
    path.write_text(CONFIG.format(root=str(folder)))
    train = dataset_options(str(path), "train", None)
    assert (train["data_root"], train["transforms"]) == (str(folder), [dict(type="Flip")])
    assert dataset_options(str(path), "test", None)["data_root"] == "elsewhere"
    assert dataset_options(str(path), "test", "here") == dict(type="ImageFolder", data_root="here", split="test")


def test_it_writes_a_picture(folder, tmp_path, capsys):
    out = tmp_path / "sheet.png"
    browse_dataset.main(["ImageFolder", "--data-root", str(folder), "--count", "4", "--out", str(out)])
    assert out.read_bytes().startswith(b"\x89PNG")
    assert capsys.readouterr().out == f"{out}\n"


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["ImageFolder"], "--data-root says where ImageFolder is"),
        (["ImageFolder", "--data-root", "/nowhere"], "/nowhere/train is missing"),
        (["ImageFoldr", "--data-root", "/nowhere"], "no dataset is called 'ImageFoldr', did you mean 'ImageFolder'"),
        (["none.py"], "none.py"),
    ],
)
def test_what_goes_wrong_is_one_sentence(arguments, message, monkeypatch):
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), *arguments])
    with pytest.raises(SystemExit, match=f"browse_dataset: .*{message}"):
        runpy.run_path(str(SCRIPT), run_name="__main__")
