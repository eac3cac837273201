"""Masks go along with their images; folders of masks, ADE20K's and one's own; a sentence for what is wrong."""

import json
import struct
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from ndformer.framework.errors import DataError
from ndformer.framework.registry import DATASETS, TRANSFORMS
from ndformer.modalities.image.stand_ins import ade20k as sample_masks
from ndformer.modalities.image.stand_ins.ade20k import CLASSES, baselines
from ndformer.modalities.image.stand_ins.classification import save
from tools import browse_dataset, predict, train
from tools import test as test_tool

CONFIG = str(Path(__file__).parents[3] / "configs" / "ade20k_pape.py")


def folder(root, masks=None, split="train", names=("sky", "sea")):
    """Two images of 12 x 16, white where the mask is 1."""
    default = np.zeros((12, 16), np.uint8)
    default[2:9, 5:11] = 1
    for i, mask in enumerate(masks or (default, default)):
        save(np.repeat(255 * (default == 1)[..., None], 3, 2).astype(np.uint8), root / f"images/{split}/{i}.jpg")
        (root / f"masks/{split}").mkdir(parents=True, exist_ok=True)
        Image.fromarray(mask).save(root / f"masks/{split}/{i}.png")
    (root / "classes.txt").write_text("\n".join(names) + "\n")
    return root


def opened(root, split="train", **options):
    return DATASETS.create(dict(type="MaskFolder", data_root=root, split=split, **options))


@pytest.mark.parametrize("size", [(20, 20), (9, 31)])
def test_masks_go_where_their_pixels_go(tmp_path, size):
    data = opened(folder(tmp_path))
    jitter = TRANSFORMS.create(dict(type="LargeScaleJitter", size=size, scale=(0.8, 2.0)))
    flip = TRANSFORMS.create(dict(type="FlipBoxes", p=0.5))
    pack = TRANSFORMS.create(dict(type="PackMask"))
    for seed in range(12):
        rng = np.random.default_rng(seed)
        found = flip(jitter(data[0], rng), rng)
        mask, light = np.asarray(found["mask"]), np.asarray(found["image"]).min(2)
        assert mask.shape == light.shape == size
        assert set(np.unique(mask)) <= {0, 1, 255}
        assert (light[mask == 1] > 128).mean() > 0.8
        assert (light[mask == 0] < 128).mean() > 0.8
        packed = pack(found, rng)["data_sample"]
        assert packed["mask"].numpy().tolist() == np.where(mask == 255, -1, mask.astype(int)).tolist()
        assert "boxes" not in packed
        assert np.array_equal(packed["truth"], data[0]["truth"])


def test_zero_may_be_nothing_and_255_always_is(tmp_path):
    mask = np.array([[0, 1, 2, 255]] * 4, np.uint8).repeat(4, 1)[:, :16].repeat(3, 0)
    data = opened(folder(tmp_path, [mask, mask]), zero_is_nothing=True)
    assert data[0]["truth"][0, ::4].tolist() == [255, 0, 1, 255]
    packed = TRANSFORMS.create(dict(type="PackMask"))(data[0], np.random.default_rng(0))["data_sample"]
    for name in ("mask", "truth"):
        assert packed[name][0, ::4].tolist() == [-1, 0, 1, -1]


def test_more_classes_than_a_byte_has_are_refused(tmp_path):
    """Class 300 silently became class 44."""
    root = folder(tmp_path, names=[f"n{i}" for i in range(600)])
    with pytest.raises(DataError, match="expected at most 255 classes, since masks have 8 bits in memory, got 600"):
        opened(root)[0]


@pytest.mark.parametrize("bits", [1, 2, 4, 8])
def test_gray_masks_of_any_depth_have_their_numbers(tmp_path, bits):
    """Pillow reads 3 of 2 bits as 255."""
    root = folder(tmp_path, names=[f"n{i}" for i in range(16)])
    numbers = np.arange(12 * 16).reshape(12, 16) % min(1 << bits, 16)
    binary = (numbers[..., None] >> np.arange(bits)[::-1] & 1).reshape(12, -1)
    rows = b"".join(b"\0" + row.tobytes() for row in np.packbits(binary.astype(np.uint8), axis=1))
    parts = [
        (b"IHDR", struct.pack(">IIBBBBB", 16, 12, bits, 0, 0, 0, 0)),
        (b"IDAT", zlib.compress(rows)),
        (b"IEND", b""),
    ]
    chunks = [
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)) for name, data in parts
    ]
    for name in ("0.png", "1.png"):
        (root / "masks/train" / name).write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(chunks))
    assert np.array_equal(opened(root)[0]["truth"], numbers)


def test_palettes_are_read_as_numbers(tmp_path):
    root = folder(tmp_path)
    with Image.open(root / "masks/train/0.png") as mask:
        with_palette = mask.convert("P")
    with_palette.putdata(list(opened(root)[0]["truth"].ravel()))
    with_palette.save(root / "masks/train/0.png")
    assert opened(root)[0]["truth"].max() == 1


WRONG = {
    "a class too many": (np.full((12, 16), 2, np.uint8), "has the label 2, but there are 2 classes, 0 to 1: name it"),
    "another size": (np.zeros((5, 5), np.uint8), r"has 5 x 5 pixels, but .*\.jpg has 12 x 16: give both the same"),
    "colors": (
        np.zeros((12, 16, 3), np.uint8),
        "must be gray or have a palette of class numbers, got an image in mode RGB",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_masks_are_one_sentence(tmp_path, case):
    mask, sentence = WRONG[case]
    data = opened(folder(tmp_path, [mask, mask]))
    with pytest.raises(DataError, match=sentence):
        data[0]


def test_missing_things_are_one_sentence(tmp_path):
    root = folder(tmp_path)
    with pytest.raises(DataError, match=r"images/test is missing: put images there"):
        opened(root, "test")
    (root / "masks/train/1.png").unlink()
    with pytest.raises(DataError, match=r"masks/train/1\.png is missing for"):
        opened(root)
    (root / "classes.txt").unlink()
    with pytest.raises(DataError, match=r"classes\.txt is missing: put the classes' names"):
        opened(root)
    (root / "classes.txt").write_text("a\nb\n")
    (root / "masks/train/1.png").write_bytes(b"no png")
    data = opened(root)
    with pytest.raises(DataError, match=r"1\.png cannot be read as an image"):
        [data.read(record) for record in data.records]


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A run on a few images of the generated stand-in."""
    home, rng = tmp_path_factory.mktemp("masks"), np.random.default_rng(0)
    for split, count in (("training", 10), ("validation", 3)):
        (home / "data/annotations" / split).mkdir(parents=True)
        for i in range(count):
            image, mask = sample_masks.draw_image(64, 80, rng)
            save(image, home / "data/images" / split / f"{i}.jpg")
            Image.fromarray(mask).save(home / "data/annotations" / split / f"{i}.png")
    lines = ["Idx\tName", *(f"{i}\t{name}" for i, name in enumerate(CLASSES, 1))]
    (home / "data/objectInfo150.txt").write_text("\n".join(lines))
    tiny = ["model.backbone.dim=16", "model.backbone.depth=1", "model.backbone.heads=2", "model.head.neck.width=16",
            "train_cfg.max_epochs=1", "train_dataloader.batch_size=4",
            *(f"{split}_dataloader.num_workers=0" for split in ("train", "val", "test"))]  # fmt: skip
    before = sys.argv
    sys.argv = ["x", CONFIG, "--sample", "--data-root", f"{home}/data", "--work-dir", f"{home}/run", "--no-report",
                "--cfg-options", *tiny]  # fmt: skip
    train.main()
    sys.argv = before
    return home


@pytest.fixture
def use(home, monkeypatch):
    monkeypatch.chdir(home)

    def use(main, *arguments):
        monkeypatch.setattr(sys, "argv", ["x", *arguments])
        main()

    return use


def test_a_run_leaves_its_numbers_and_its_classes(home):
    results = json.loads((home / "run/results.json").read_text())
    assert set(results["test"]) == {"mIoU", "mean_accuracy", "accuracy"}
    assert [line.split()[0] for line in (home / "run/classes.txt").read_text().splitlines()] == ["class", *CLASSES]
    assert (home / "run/confusion_matrix.png").is_file()


def test_pictures_and_shares_of_pixels(use, home, capsys):
    use(test_tool.main, "run/config.py", "run/best.pth", "--show-dir", "seen", "--out", "all.json")
    assert "test: 3 samples of " in capsys.readouterr().err
    names = sorted(path.name for path in (home / "seen").iterdir())
    assert len(names) == 3
    assert all("right" in name for name in names)
    rows = json.loads((home / "all.json").read_text())
    assert all(sum(row[name] for name in CLASSES) == pytest.approx(1, abs=1e-4) for row in rows)
    Image.new("RGB", (33, 70), (200, 0, 0)).save(home / "mine.png")
    capsys.readouterr()
    use(predict.main, "run/config.py", "run/best.pth", "mine.png", "--show-dir", "mine")
    assert "%" in capsys.readouterr().out
    assert len(list((home / "mine").iterdir())) == 1


def test_browsing_lays_masks_over_images(use, home):
    use(browse_dataset.main, "run/config.py", "--count", "4", "--out", "sheet.png")
    with Image.open(home / "sheet.png") as sheet:
        assert sheet.width > 4 * 90


def test_the_baselines_predict_the_most_common_class_everywhere_or_at_each_place(tmp_path):
    (tmp_path / "classes.txt").write_text("sky\nground\n")
    for split, line in (("train", 8), ("test", 16)):  # sky is above, of 32 rows
        mask = np.zeros((32, 32), np.uint8)
        mask[line:] = 1
        mask[0, :4] = 255
        for kind, image in (("images", np.zeros((32, 32, 3), np.uint8)), ("masks", mask)):
            (tmp_path / kind / split).mkdir(parents=True)
            for i in range(3):
                Image.fromarray(image).save(tmp_path / kind / split / f"{i}.png")
    train = DATASETS.create(dict(type="MaskFolder", data_root=tmp_path, split="train", holdout=0.0))
    test = DATASETS.create(dict(type="MaskFolder", data_root=tmp_path, split="test"))
    found = dict(baselines(train, test))
    known = 32 * 32 - 4
    assert found["most common class, mIoU"] == pytest.approx((0 + 512 / known) / 2)
    sky, ground = (256 - 4) / (512 - 4), 512 / 768  # said above row 8, there above row 16
    assert found["most common class of a place, mIoU"] == pytest.approx((sky + ground) / 2)
