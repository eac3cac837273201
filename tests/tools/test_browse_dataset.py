"""tools/browse_dataset.py: sheets of transformed samples with class names."""

import numpy as np
import pytest
from PIL import Image

from ndformer.framework.answers.label import Label
from ndformer.framework.registry import DATASETS, STAND_INS
from tests.programs import CONFIGS, refusal, run, write_images
from tools import browse_dataset
from tools.browse_dataset import CAPTION, sheet

TILE = Label.tile
PACK = dict(type="PackImage")


@pytest.fixture
def folder(tmp_path):
    return write_images(tmp_path / "set", ("ant", "bee", "cat"), splits=("train", "val", "test"), size=(8, 8))


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


def test_a_sample_that_replaces_a_bad_one_has_its_own_name(folder, monkeypatch):
    written = []
    monkeypatch.setattr(browse_dataset.ImageDraw.ImageDraw, "text", lambda self, place, text, **_: written.append(text))
    for path in (folder / "train" / "ant").iterdir():
        path.write_bytes(b"not a picture")
    dataset = DATASETS.create(dict(type="ImageFolder", data_root=folder, transforms=[PACK]))
    dataset.skip_bad = True
    sheet(dataset, 3)
    assert written == ["bee", "bee", "cat"]


def test_there_are_no_more_tiles_than_samples(folder):
    page = sheet(DATASETS.create(dict(type="ImageFolder", data_root=folder)), 100)
    assert page.size == (5 * (TILE + 4), 3 * (TILE + CAPTION + 4))  # 12 in rows of 5


def test_oblong_images_keep_their_shape(folder):
    transforms = [dict(type="Resize", size=(8, 4))]
    page = sheet(DATASETS.create(dict(type="ImageFolder", data_root=folder, transforms=transforms)), 1)
    assert (tile(page, 0)[:, TILE // 2 :] == 255).all()
    assert (tile(page, 0)[:, : TILE // 2] != 255).any(-1).mean() > 0.9


@pytest.fixture
def browse(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def browse(*arguments, out="sheet.png"):
        run(browse_dataset.main, *arguments, "--out", out)
        with Image.open(out) as made:
            return made.copy()

    return browse


@pytest.fixture
def clouds(tmp_path):
    (tmp_path / "clouds").mkdir()
    STAND_INS.get("modelnet40")().write(tmp_path / "clouds", 0, train=1, test=1, points=50)
    return tmp_path / "clouds"


def test_a_config_is_read_as_for_training(browse, folder, capsys):
    options = [
        "--cfg-options",
        "train_dataloader.dataset.transforms=[dict(type='Flip', p=1.0), dict(type='PackImage')]",
    ]
    made = browse(CONFIGS / "imagefolder_pape.py", "--data-root", folder, "--count", 1, *options, out="new/deep/s.png")
    assert capsys.readouterr().out == "new/deep/s.png\n"
    plain = DATASETS.create(dict(type="ImageFolder", data_root=folder))
    np.testing.assert_array_equal(tile(made, 0)[8::16, 8::16], np.asarray(plain[0]["image"])[:, ::-1])


def test_sample_makes_the_stand_in_and_shows_it(browse, folder, monkeypatch, capsys):
    made = []
    monkeypatch.setattr(
        "ndformer.framework.engine.building.make_sample", lambda name, home: made.append(name) or folder.rename(home)
    )
    (folder.parent / "data" / "samples").mkdir(parents=True)
    browse(CONFIGS / "imagefolder_pape.py", "--sample", "--count", 3)
    assert made == ["imagefolder"]


def test_clouds_are_drawn_from_three_sides_in_cells_as_wide(browse, clouds):
    page = browse("ModelNet40", "--data-root", clouds, "--count", 2)
    assert page.size == (2 * (3 * TILE + 4), TILE + CAPTION + 4)
    views = np.asarray(page)[2 + CAPTION : 2 + CAPTION + TILE, 2 : 2 + 3 * TILE].reshape(TILE, 3, TILE, 3)
    assert all((views[:, i] < 200).any() for i in range(3))


def test_a_mixture_shows_its_parts_below_each_other(browse, folder, clouds, tmp_path):
    text = (CONFIGS / "joint_sample.py").read_text()
    text = text.replace('type="CIFAR10", data_root="data/samples/cifar10"', f'type="ImageFolder", data_root="{folder}"')
    text = text.replace("data/samples/modelnet40", str(clouds)).replace("count=512", "count=20")
    text += 'test_dataloader["dataset"]["parts"] = {name: _eval[name] for name in ("image", "points")}\n'
    text += "sample_data = None\n"
    (tmp_path / "joint.py").write_text(text)
    page = browse("joint.py", "--count", 2, "--split", "test")
    assert page.size == (2 * (3 * TILE + 4), 2 * (TILE + CAPTION + 4 + 26))
    assert (np.asarray(page)[: TILE + CAPTION, 2 * (TILE + 4) :] == 255).all()  # images are not as wide as clouds


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["ImageFolder"], "--data-root: expected the folder of ImageFolder"),
        (["ImageFolder", "--data-root", "/nowhere"], "/nowhere/train is missing"),
        (
            ["ImageFolder", "--data-root", "/nowhere", "--sample"],
            "--sample, --encoding and --cfg-options: expected a config, got the dataset ImageFolder",
        ),
        (["ImageFoldr", "--data-root", "/nowhere"], "no dataset is called 'ImageFoldr', did you mean 'ImageFolder'"),
        ([CONFIGS / "cifar10_pape.py"], "data/cifar10/data_batch_1 is missing"),
        (
            [CONFIGS / "cifar10_pape.py", "--out", "x.txt"],
            "--out: expected a name that ends in .png, .jpg or .pdf, got",
        ),
        ([CONFIGS / "cifar10_pape.py", "--count", "0"], "--count: expected 1 or more, got 0"),
    ],
)
def test_what_goes_wrong_is_one_sentence(arguments, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert refusal(browse_dataset.main, *arguments).startswith(message)
