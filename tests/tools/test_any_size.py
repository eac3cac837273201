"""Programs on photos of any size, with a small model that has learned from photos of two sizes in one batch."""

import json

import numpy as np
import pytest
import torch
from PIL import Image

from ndformer.framework import graph
from ndformer.framework.engine.building import build_model
from ndformer.framework.engine.config.load import load
from ndformer.framework.engine.training import checkpoint
from ndformer.framework.engine.training.loading import build_loader
from ndformer.framework.errors import DataError
from ndformer.framework.heads.frame import original
from ndformer.lab.extrapolate import resized
from tests.explored import told
from tests.programs import CONFIGS, NO_WORKERS, SMALL, printed, refusal, run, write_images
from tools import check_data, explore, export, extrapolate, predict, show_attention, train

CONFIG = "imagefolder_native"
OPTIONS = ["--cfg-options", *SMALL, "preset=small", "model.head.classes=2"]
SIZES = [(12, 60), (48, 18), (30, 36)]  # height and width


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    home, rng = tmp_path_factory.mktemp("home"), np.random.default_rng(0)
    for name, size in (("left", (32, 48)), ("right", (40, 24))):
        write_images(home / "mine", (name,), splits=("train", "val", "test"), size=size)
    words = ["--no-report", "--data-root", home / "mine", "--work-dir", home / "run", *OPTIONS, *NO_WORKERS]
    run(train.main, CONFIG, *words, "train_cfg.max_epochs=1", "optimizer.lr=0.02", "train_dataloader.batch_tokens=300")
    (home / "run/best.pth").rename(home / "best.pth")
    for name, size in dict(wide=(200, 900), tall=(300, 100), line=(1, 10_000)).items():
        Image.fromarray(rng.integers(0, 255, (*size, 3), np.uint8)).save(home / f"{name}.png")
    return home


def test_predict_reads_rectangles_and_names_the_ones_it_cannot(home, tmp_path, capsys):
    files = [home / f"{name}.png" for name in ("wide", "line", "tall")]
    out = tmp_path / "out.json"
    text = printed(capsys, predict.main, CONFIG, home / "best.pth", *files, "--out", out, *OPTIONS)
    assert "line.png has 1 x 10000 pixels: with a longer side of 60 its shorter side has less than half a patch" in text
    assert "1 of 3 files could not be read" in text
    assert len(json.loads(out.read_text())) == 2


def test_attention_of_a_wide_photo_is_drawn_at_its_ratio(home, tmp_path, capsys):
    words = [CONFIG, home / "best.pth", home / "wide.png", "--out"]
    show_attention.main(list(map(str, [*words, tmp_path / "a.png", *OPTIONS])))
    with Image.open(tmp_path / "a.png") as picture:
        assert min(picture.size) > 100
    printed(capsys, explore.main, *words, tmp_path / "a.html", *OPTIONS)
    (file,) = told((tmp_path / "a.html").read_text(encoding="utf-8"))[0]["files"]
    (side,) = file["sides"]
    assert side["count"] == 1 + 2 * 10  # the class token, and the patches of 12 x 60 pixels
    assert side["view"]["width"] == 5 * side["view"]["height"]


@pytest.mark.slow
@pytest.mark.parametrize("ending", graph.ENDINGS)
def test_an_exported_model_answers_rectangles_as_their_packed_batch(ending, home, tmp_path, capsys):
    path = tmp_path / f"model{ending}"
    if ending == ".onnx":
        pytest.importorskip("onnxscript")
        pytest.importorskip("onnxruntime")
    printed(capsys, export.main, CONFIG, home / "best.pth", path, *OPTIONS)
    model = build_model(load(CONFIGS / f"{CONFIG}.py", OPTIONS[1:]), "cpu").eval()
    model.load_state_dict(checkpoint.load(home / "best.pth")["model"])
    images = [torch.randn(3, *size, generator=torch.Generator().manual_seed(9)) for size in SIZES]
    answer = graph._runner(path)
    assert answer is not None
    with torch.no_grad():
        expected = model(images)
    assert expected.std(0).min() > 1e-3
    logits = torch.cat([answer(image[None])["logits"] for image in images])
    torch.testing.assert_close(logits, expected, rtol=1e-5, atol=1e-5)


def test_a_map_over_heights_and_widths_of_a_model_of_any_size(home, tmp_path):
    sides = [word for name in ("heights", "widths") for word in (f"--{name}", "24", "60")]
    words = [CONFIG, home / "best.pth", "--data-root", home / "mine", *sides, "--scalings", "none", "--out", tmp_path]
    extrapolate.main(list(map(str, [*words, *OPTIONS, *NO_WORKERS])))
    content = json.loads((tmp_path / "extrapolate.json").read_text())
    figures = content["runs"][0]["figures"]
    found = {tuple(figure["shape"]): figure["tokens"] for figure in figures}
    assert found == {(h, w): h * w // 36 + 1 for h in (24, 60) for w in (24, 60)}  # and the class token
    assert {figure["did"] for figure in figures} == {f"KeepAspect replaced by Resize to {h} x {w}" for h, w in found}
    assert [(gap["encoding"], gap["scaling"], gap["n"]) for gap in content["aspect_gaps"]] == [
        ("PaPE(m=50)", "none", 1)
    ]
    assert content["runs"][0]["trained"] == [60, 60]
    assert "aspect gap" in (tmp_path / "extrapolate.md").read_text()


def test_a_map_leaves_out_the_photos_that_the_test_leaves_out(tmp_path):
    write_images(tmp_path / "mine", ("left", "right"), splits=("train", "test"), size=(32, 48))
    Image.new("RGB", (10_000, 1)).save(tmp_path / "mine/test/left/+line.png")  # the first of the test photos
    options = [*OPTIONS[1:], *NO_WORKERS, f"data_root={str(tmp_path / 'mine')!r}"]
    with pytest.raises(DataError, match=r"\+line\.png has 1 x 10000 pixels"):
        resized(load(CONFIGS / f"{CONFIG}.py", options), (60, 60), (24, 60))
    cfg = load(CONFIGS / f"{CONFIG}.py", [*options, "test_dataloader.skip_bad=True"])
    loaders = [build_loader(one, "test") for one in (cfg, resized(cfg, (60, 60), (24, 60))[0])]
    tested, mapped = ([sample["index"] for batch in loader for sample in batch["data_samples"]] for loader in loaders)
    assert mapped == tested == list(range(1, len(loaders[0].data)))
    assert [len(loader.bad) for loader in loaders] == [1, 1]


def test_a_run_continues_without_photos_that_it_cannot_use(tmp_path, capsys):
    splits = ("train", "val", "test")
    write_images(tmp_path / "mine", ("left", "right"), splits=splits, size=(32, 48))
    for i, split in enumerate(splits):
        Image.new("RGB", (10_000, 1), (i, 0, 0)).save(tmp_path / f"mine/{split}/left/line.png")
        Image.new("RGB", (3, 2), (i, 9, 0)).save(tmp_path / f"mine/{split}/left/tiny.png")  # is enlarged
        Image.new("RGB", (60, 60), (i, 0, 9)).save(tmp_path / f"mine/{split}/left/square.png")
    options = [*OPTIONS, *NO_WORKERS, "train_cfg.max_epochs=1", f"work_dir={tmp_path / 'run'}"]
    words = [CONFIG, "--no-report", "--data-root", tmp_path / "mine", *options, "train_dataloader.batch_tokens=95"]
    sentence = refusal(train.main, *words)
    assert "line.png has 1 x 10000 pixels" in sentence
    assert "train_dataloader.skip_bad=True leaves such samples out" in sentence
    checked = words[:1] + words[2:]  # without --no-report
    sentence = refusal(check_data.main, *checked, "--workers", 0, "--splits", "train")
    assert sentence.startswith("2 samples cannot be used. Replace them; --cfg-options train_dataloader.skip_bad=True")
    assert "square.png has 101 tokens, and a batch at most batch_tokens=95. Raise" in capsys.readouterr().out
    text = printed(capsys, train.main, *words, *(f"{split}_dataloader.skip_bad=True" for split in splits))
    assert "2 samples of train could not be used and were skipped" in text
    assert "square.png has 101 tokens, and a batch at most batch_tokens=95. Raise" in text
    for split in ("val", "test"):
        assert f"1 sample of {split} could not be used and was skipped" in text
    assert "test, with the checkpoint best on validation" in text


def test_masks_of_any_size_from_training_to_pictures(home, tmp_path, capsys):
    rng = np.random.default_rng(0)
    for split, count in (("train", 8), ("val", 3)):
        for kind in ("images", "masks"):
            (tmp_path / "mine" / kind / split).mkdir(parents=True)
        for i in range(count):
            mask = rng.integers(0, 2, rng.integers(20, 70, 2), np.uint8)
            Image.fromarray(mask).save(tmp_path / f"mine/masks/{split}/{i}.png")
            Image.fromarray(np.repeat(200 * mask[..., None], 3, 2)).save(tmp_path / f"mine/images/{split}/{i}.png")
    (tmp_path / "mine/classes.txt").write_text("ground\nobject\n")
    out = tmp_path / "run"
    options = [*SMALL, *NO_WORKERS, "preset=small", "model.head.neck.width=16", "train_cfg.max_epochs=1"]
    words = ["--data-root", tmp_path / "mine", "--work-dir", out, "--cfg-options", *options]
    printed(capsys, train.main, "custom_segmentation_native", *words)
    assert set(json.loads((out / "results.json").read_text())["test"]) == {"mIoU", "mean_accuracy", "accuracy"}
    assert all((out / f"shown/{i}.png").is_file() for i in range(3))
    files = [home / f"{name}.png" for name in ("wide", "tall")]
    outputs = ["--out", tmp_path / "out.json", "--show-dir", tmp_path / "seen"]
    text = printed(capsys, predict.main, out / "config.py", out / "best.pth", *files, *outputs)
    assert "%" in text
    assert len(json.loads((tmp_path / "out.json").read_text())) == len(list((tmp_path / "seen").iterdir())) == 2


@pytest.fixture
def cells(tmp_path):
    """Photographs with one bright box each, in YOLO's format: options for them."""
    for number, (split, count) in enumerate(dict(train=6, val=2, test=2).items()):
        for kind in ("images", "labels"):
            (tmp_path / "cells" / kind / split).mkdir(parents=True)
        for i in range(count):
            pixels = np.zeros((60 + 10 * i, 90, 3), np.uint8)
            pixels[12 + 2 * i : 48 + 8 * i, 27:63] = 200 + 10 * number + i
            Image.fromarray(pixels).save(tmp_path / f"cells/images/{split}/{i}.png")
            (tmp_path / f"cells/labels/{split}/{i}.txt").write_text("0 0.5 0.5 0.4 0.6\n")
    (tmp_path / "cells/classes.txt").write_text("cell\n")
    types = [f"{split}_dataloader.dataset.type=YoloFolder" for split in ("train", "val", "test")]
    return [*types, f"data_root={str(tmp_path / 'cells')!r}", "model.head.classes=1"]


def test_boxes_of_any_size_from_training_to_the_map(home, cells, tmp_path, capsys):
    out = tmp_path / "run"
    options = [*cells, *SMALL, *NO_WORKERS, "model.head.neck.width=16", "train_cfg.max_epochs=1"]
    printed(capsys, train.main, "bccd_native", "--no-report", "--work-dir", out, "--cfg-options", *options)
    assert "mAP50" in json.loads((out / "results.json").read_text())["test"]
    files = [home / f"{name}.png" for name in ("wide", "tall")]
    printed(capsys, predict.main, out, *files, "--show-dir", tmp_path / "drawn")
    ratios = []
    for drawn in (tmp_path / "drawn").iterdir():
        with Image.open(drawn) as picture:
            ratios.append(picture.width / picture.height)
    low, high = sorted(ratios)
    assert low < 0.5  # 1 / 3, and with a legend below less
    assert high > 3  # 9 / 2
    sides = [word for name in ("heights", "widths") for word in (f"--{name}", "48", "96")]
    printed(capsys, extrapolate.main, out, *sides, "--scalings", "none", "--metric", "mAP50", "--out", tmp_path)
    figures = json.loads((tmp_path / "extrapolate.json").read_text())["runs"][0]["figures"]
    assert {tuple(figure["shape"]) for figure in figures} == {(h, w) for h in (48, 96) for w in (48, 96)}
    assert all({"mAP", "mAP50"} <= figure["test"].keys() for figure in figures)


def test_boxes_of_a_map_are_those_of_the_photographs(cells):
    """Photographs are stretched to each cell of a map, and answers are compared in pixels of the file."""
    changed, did = resized(load(CONFIGS / "bccd_native.py", cells), (320, 320), (48, 160))
    assert did == "KeepAspect replaced by Resize to 48 x 160"
    sample = build_loader(changed, "test").data[0]
    assert sample["inputs"]["image"].shape == (3, 48, 160)
    answer = original(sample["data_sample"]["boxes"], sample["data_sample"])
    torch.testing.assert_close(answer, torch.tensor([[27.0, 12.0, 63.0, 48.0]]))


def test_wrong_configs_are_refused_before_data_is_read(tmp_path):
    options = ["--cfg-options", f"work_dir={tmp_path}", "model.modalities.image.patch=5"]
    sentence = refusal(train.main, CONFIG, "--sample", *options)
    assert "transforms give multiples of 6, which patches of 5 x 5 do not divide: set multiple_of=5" in sentence
