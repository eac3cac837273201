"""tools/predict.py, tools/test.py and tools/show_attention.py on a trained model."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from ndformer.framework.engine.building import build_model
from ndformer.framework.engine.config.load import load
from ndformer.framework.engine.inputs import Preparation
from ndformer.framework.engine.training import checkpoint
from tests.programs import CONFIGS, refusal, run, save_untrained
from tools import predict, show_attention
from tools import test as test_tool

CONFIG = CONFIGS / "cifar10_pape.py"
SMALL = ["model.backbone.dim=16", "model.backbone.depth=2", "model.backbone.heads=2"]
ANY_SIZE = "test_dataloader.dataset.transforms=[dict(type='PackImage')]"
CLASSES = list("abcdefghij")


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    path = tmp_path_factory.mktemp("run") / "best.pth"
    save_untrained(path, load(CONFIG, SMALL), CLASSES, head_std=1.0)
    return path


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "some").mkdir()
    for name, height, width in [("some/b.png", 32, 32), ("some/a.jpg", 32, 48), ("odd.png", 33, 46)]:
        pixels = np.random.default_rng(0).integers(0, 255, (height, width, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(tmp_path / name)
    return tmp_path


@pytest.fixture
def use(weights):
    def use(main, *arguments, options=()):
        run(main, CONFIG, weights, *arguments, "--cfg-options", *SMALL, *(options or [ANY_SIZE]))

    return use


@pytest.fixture
def refused(use):
    def refused(main, *arguments, **more):
        sentence = refusal(lambda: use(main, *arguments, **more))
        assert "NDFORMER_DEBUG" not in sentence
        return sentence

    return refused


def test_files_and_folders_are_predicted_and_written_into_a_new_folder(use, capsys):
    use(predict.main, "some", "--out", "new/deep/out.csv")
    a, b, out = capsys.readouterr().out.splitlines()
    assert (a.split()[0], b.split()[0], out) == ("some/a.jpg", "some/b.png", "new/deep/out.csv")
    with open("new/deep/out.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["path"] for row in rows] == ["some/a.jpg", "some/b.png"]
    assert [row["prediction"] for row in rows] == [a.split()[1], b.split()[1]]
    assert sum(float(rows[0][name]) for name in CLASSES) == pytest.approx(1, abs=1e-4)
    use(predict.main, "some/b.png", "--out", "out.json", "--top", "1")
    assert json.loads(Path("out.json").read_text())[0]["prediction"] == rows[1]["prediction"]


@pytest.mark.parametrize("name, size, channels", [("mnist_small", 28, 1), ("cifar10_pape", 32, 3)])
def test_a_photo_of_another_size_is_cropped_to_the_size_of_training(name, size, channels):
    """A photo of 200 x 300 pixels gave a model of 49 tokens 3,750; images of the data set do not change."""
    cfg = load(CONFIGS / f"{name}.py")
    prepared = Preparation(cfg, build_model(cfg))
    photo = np.random.default_rng(0).integers(0, 255, (200, 300, 3), dtype=np.uint8)
    assert prepared.sample_from_memory(photo)["inputs"]["image"].shape == (channels, size, size)
    small = photo[:size, :size, 0] if channels == 1 else photo[:size, :size]
    uncropped = Preparation(load(CONFIGS / f"{name}.py", [ANY_SIZE]), build_model(cfg))
    pixels, expected = (each.sample_from_memory(small)["inputs"]["image"] for each in (prepared, uncropped))
    assert torch.equal(pixels, expected)


@pytest.mark.parametrize("main", [predict.main, show_attention.main])
def test_an_image_that_patches_do_not_divide_names_the_option_that_mends_it(main, use, refused):
    sentence = refused(main, "odd.png")
    assert sentence.startswith(
        "odd.png has 33 x 46 pixels, which patches of 4 do not divide: resize it, or set in the config "
    )
    option = sentence.partition('in the config "')[2].removesuffix('"')
    assert option.endswith("[dict(type='Resize', size=(32, 48)), dict(type='PackImage')]")
    use(main, "odd.png", options=[option])


@pytest.mark.parametrize(
    "main, endings",
    [(predict.main, ".csv or .json"), (test_tool.main, ".csv or .json"), (show_attention.main, ".jpg, .pdf or .svg")],
)
def test_where_the_result_goes_is_looked_at_before_the_work(main, endings, refused, monkeypatch, folder):
    def work(*given):
        raise AssertionError("too early")

    for module in (predict, test_tool, show_attention):
        monkeypatch.setattr(module, "build_model", work)
    image = [] if main is test_tool.main else ["some/b.png"]
    assert f"{endings}, got 'x.txt'" in refused(main, *image, "--out", "x.txt")
    ending = "." + endings.rpartition(".")[2]
    (folder / f"there{ending}").mkdir()
    assert refused(main, *image, "--out", f"there{ending}").startswith("--out: expected a file, got the folder there")
    assert "cannot be created (" in refused(main, *image, "--out", f"odd.png/x{ending}")


@pytest.mark.parametrize(
    "main, arguments, sentence",
    [
        (predict.main, ["nothing.png"], "no file or folder at nothing.png"),
        (predict.main, ["CCO"], "no file or folder at CCO. Give a file ending in .jpg, "),
        (predict.main, ["empty"], "no file that this model reads (.jpg, "),
        (predict.main, ["text.png"], "text.png cannot be read as an image ("),
        (
            show_attention.main,
            ["some/b.png", "--query", "8,0"],
            "query: expected class or Y,X (row 0 to 7, column 0 to 7), got '8,0'",
        ),
        (show_attention.main, ["some/b.png", "--query", "1,2,3"], "query: expected class or Y,X (row 0 to 7, column "),
        (show_attention.main, ["some/b.png", "--query", "1,2", "3,4"], "several queries need one layer: "),
        (show_attention.main, ["some/b.png", "--layer", "3"], "--layer: expected a number from 1 to 2, got 3"),
        (show_attention.main, ["some/b.png", "--head", "0"], "--head: expected a number from 1 to 2, got 0"),
        (show_attention.main, ["12"], "data/cifar10/test_batch is missing: "),
    ],
)
def test_a_mistake_is_one_sentence(main, arguments, sentence, refused, folder):
    (folder / "empty").mkdir()
    (folder / "text.png").write_text("no pixels")
    assert refused(main, *arguments).startswith(sentence)


def test_cards_are_drawn_for_files_and_refused_where_something_is(use, refused, capsys):
    use(predict.main, "some", "--show-dir", "new/seen")
    a, b, seen = capsys.readouterr().out.splitlines()
    assert seen == "new/seen"
    names = [f"000_{a.split()[1]}_a.png", f"001_{b.split()[1]}_b.png"]
    assert sorted(path.name for path in Path(seen).iterdir()) == names
    assert refused(predict.main, "some", "--show-dir", "new/seen").startswith(
        "--show-dir: expected an empty folder, got new/seen"
    )
    assert refused(predict.main, "some", "--show-dir", "odd.png").startswith("--show-dir odd.png: expected a folder, ")
    assert (
        refused(predict.main, "some", "--show-dir", "x", "--show-count", "0")
        == "--show-count: expected 1 or more, got 0"
    )


def test_what_cannot_be_read_is_left_out_and_the_rest_is_written(refused, folder, capsys):
    (folder / "some" / "aa.png").write_text("no pixels")
    out = ["--out", "out.csv", "--show-dir", "seen"]
    assert refused(predict.main, "some", *out) == "1 of 3 files could not be read, for the reasons above"
    said = capsys.readouterr()
    legend, unread, *_ = said.err.splitlines()
    assert legend == "predict: file, classes with their scores (shares of 1, highest first)"
    assert unread.startswith("predict: some/aa.png cannot be read as an image (")
    assert [line.split()[0] for line in said.out.splitlines()] == ["some/a.jpg", "some/b.png", "out.csv", "seen"]
    with (folder / "out.csv").open() as file:
        assert [row["path"] for row in csv.DictReader(file)] == ["some/a.jpg", "some/b.png"]
    assert sorted(path.stem[-2:] for path in Path("seen").iterdir()) == ["_a", "_b"]


def test_clouds_are_predicted_from_their_files(tmp_path, capsys):
    config = CONFIGS / "modelnet40_plain_pape.py"
    small = [*SMALL, "model.modalities.points.centers=8", "model.modalities.points.neighbors=4"]
    small += ["model.head.classes=3"]
    small += ["test_dataloader.dataset.transforms=[dict(type='NormalizePoints'), dict(type='PackPoints')]"]
    small += ["model.backbone.drop_path=0.0"]
    save_untrained(tmp_path / "best.pth", load(config, small), ["cup", "jar", "mug"])
    cloud = np.random.default_rng(0).normal(size=(40, 6))
    np.savetxt("a.txt", cloud, "%.6f", ",")
    np.save("b.npy", cloud)
    (tmp_path / "c.off").write_text("OFF\n3 1 0\n0 0 0\n1 0 0\n0 1 0\n3 0 1 2\n")
    fields = "".join(f"property float {name}\n" for name in ("x", "y", "z", "nx", "ny", "nz"))
    rows = "".join(" ".join(f"{value:.6f}" for value in row) + "\n" for row in cloud)
    (tmp_path / "e.ply").write_text(f"ply\nformat ascii 1.0\nelement vertex 40\n{fields}end_header\n{rows}")
    files = ["a.txt", "b.npy", "c.off", "e.ply"]
    run(predict.main, config, "best.pth", *files, "--cfg-options", *small, "--show-dir", "seen")
    a, b, c, e, _ = capsys.readouterr().out.splitlines()
    assert a.split()[1:] == b.split()[1:] == e.split()[1:]
    assert c.startswith("c.off")
    cards = sorted(Path("seen").iterdir())
    assert [card.name[:4] + card.name[-5:] for card in cards] == ["000_a.png", "001_b.png", "002_c.png", "003_e.png"]
    with Image.open(cards[0]) as card:
        assert card.width > 3 * card.height / 2  # three sides
    (tmp_path / "d.txt").write_text("1,2\n3,4\n")
    sentence = refusal(predict.main, config, "best.pth", "d.txt", "--cfg-options", *small)
    assert sentence.startswith("d.txt cannot be read as a point cloud (it must have ")
    assert "): replace it or" in sentence


def titles(monkeypatch, use, *arguments, **more):
    """Return the figure, its axes with images, and their row titles."""
    drawn = []
    painting = show_attention.attention.painting
    monkeypatch.setattr(show_attention.attention, "painting", lambda *given: drawn.append(painting(*given)) or drawn[0])
    use(show_attention.main, *arguments, **more)
    figure = drawn[0].figure
    axes = [ax for ax in figure.axes if ax.get_images()]
    return figure, axes, [ax.get_ylabel() for ax in axes if ax.get_ylabel()]


def test_all_layers_are_rows_and_all_heads_columns(monkeypatch, use, capsys):
    picture, axes, rows = titles(monkeypatch, use, "some/a.jpg")
    assert rows == ["layer 1", "layer 2"]
    assert picture.get_suptitle().startswith("a.jpg: PaPE predicts ")
    assert picture.get_suptitle().endswith(", query class")
    assert len(axes) == 1 + 2 * 2  # the picture, then maps
    assert [ax.get_images()[-1].get_array().shape for ax in axes] == [(32, 48, 3)] * 5
    assert not any(ax.get_lines() for ax in axes)  # the class token has no place to ring
    assert capsys.readouterr().out == "attention.png\n"
    assert Path("attention.png").stat().st_size > 1000


def test_one_layer_shows_the_terms_for_each_query(monkeypatch, use):
    picture, axes, rows = titles(monkeypatch, use, "some/b.png", "--layer", "2", "--query", "class", "3,4")
    assert rows == ["query class", "query 3,4"] * 4  # semantic, distance, direction, attention
    assert len(axes) == 2 + 4 * 2 * 2  # the picture without and with a ring
    rings = [tuple(float(v[0]) for v in ax.get_lines()[0].get_data()) for ax in axes if ax.get_lines()]
    assert set(rings) == {(17.5, 13.5)}  # in pixels: the middle of patch 3,4 of 4 x 4
    assert picture.get_suptitle().endswith(", layer 2")


def test_one_head_shows_its_terms_in_all_layers(monkeypatch, use):
    _, axes, rows = titles(monkeypatch, use, "some/b.png", "--head", "1", "--query", "0,7")
    assert rows == ["layer 1", "layer 2"] * 4
    shares = [ax.get_xlabel() for ax in axes if "max" in ax.get_xlabel()]
    assert len(shares) == 2
    assert all(", off " in share for share in shares)


def test_without_a_class_token_the_middle_patch_looks(monkeypatch, use, refused, weights):
    bare = ["model.modalities.image.class_token=False", "model.head.pool=mean"]
    save_untrained(weights.with_name("bare.pth"), load(CONFIG, [*SMALL, *bare]), CLASSES)
    monkeypatch.setattr(checkpoint, "load", lambda path, load=checkpoint.load: load(weights.with_name("bare.pth")))
    picture, _, _ = titles(monkeypatch, use, "some/b.png", options=bare)
    assert picture.get_suptitle().endswith(", query 4,4")
    assert picture.get_supxlabel() == "ring: the query"
    sentence = refused(show_attention.main, "some/b.png", "--query", "class", options=bare)
    assert sentence.startswith("this model has no class token: choose another, --query Y,X (row 0 to 7, ")
