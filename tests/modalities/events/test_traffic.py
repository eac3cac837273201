"""GEN1's stand-in: boxes are where things are, at every moment, in GEN1's files; a mean box finds next to nothing."""

import hashlib
import math

import numpy as np
import pytest
from scipy.ndimage import map_coordinates

from ndformer.framework.registry import DATASETS
from ndformer.modalities.events.formats.evt_dat import write_dat
from ndformer.modalities.events.stand_ins import gen1 as sample_gen1
from ndformer.modalities.events.stand_ins.gen1 import baselines
from ndformer.modalities.events.stand_ins.traffic import (
    CAR,
    HEIGHT,
    MIN_VISIBLE,
    PEDESTRIAN,
    WIDTH,
    StreetObject,
    film,
    paint,
    sample_image,
)

TIMES = np.arange(0, 1_000_001, 25_000)


@pytest.mark.parametrize("label", [CAR, PEDESTRIAN])
def test_boxes_enclose_the_painted_sprite_as_it_moves(label):
    """All that a thing covers is inside its box, and reaches to within a pixel of its sides."""
    checked = 0
    for seed in range(6):
        rng = np.random.default_rng(seed)
        thing = StreetObject.random(label, TIMES / 1e6, np.zeros((len(TIMES), 2)), rng)
        for time in (0, 20, 40):
            frame, owner = np.zeros((HEIGHT, WIDTH), np.float32), np.full((HEIGHT, WIDTH), -1, np.int8)
            paint(frame, owner, thing, 3, time)
            (x, y, width, height), pixels = thing.box(time)
            if not (x >= 0 and y >= 0 and x + width <= WIDTH and y + height <= HEIGHT):
                continue
            rows, columns = np.nonzero(owner == 3)
            painted = columns.min(), rows.min(), columns.max() + 1, rows.max() + 1
            np.testing.assert_allclose(painted, (x, y, x + width, y + height), atol=1.5)
            assert len(rows) == pytest.approx(pixels, rel=0.15)
            checked += 1
    assert checked > 6


def test_places_between_pixels_are_interpolated_linearly():
    rng = np.random.default_rng(0)
    planes = rng.random((2, 5, 7)).astype(np.float32)
    rows, columns = np.array([-1.0, 0.25, 3.5, 9.0]), np.array([0.0, 2.75, 6.5])
    found = sample_image(planes, rows, columns)
    grid = np.meshgrid(rows, columns, indexing="ij")
    expected = [map_coordinates(plane, grid, order=1, mode="nearest") for plane in planes]
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_hidden_and_outside_objects_are_not_visible():
    shares = [film(TIMES[:3], np.random.default_rng(seed))[1:] for seed in range(12)]
    seen = np.concatenate([seen.ravel() for _, seen in shares])
    assert (seen >= 0).all()
    assert (seen < MIN_VISIBLE).any()
    assert (seen > 0.9).any()
    for things, share in shares:
        for number, thing in enumerate(things):
            x, _, width, _ = thing.box(0)[0]
            if x > WIDTH or x + width < 0:
                assert share[0, number] == 0


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    home = tmp_path_factory.mktemp("gen1")
    sample_gen1.gen1(home, 0, dict(train=2, val=1, test=2))
    return home


def test_files_are_as_gen1s(root):
    files = sorted(path.name for path in (root / "train").iterdir())
    assert len(files) == 4
    assert {name.split("_")[-1] for name in files} == {"td.dat", "bbox.npy"}
    head = (root / "train" / files[1]).read_bytes()[:200].split(b"\n")
    assert [line for line in head if line.startswith((b"% Height", b"% Width"))] == [b"% Height 240", b"% Width 304"]
    for path in root.glob("*/*_bbox.npy"):
        table = np.load(path)
        assert table.dtype.names == ("ts", "x", "y", "w", "h", "class_id", "confidence", "track_id")
        moments = np.unique(table["ts"].astype(np.int64))
        assert (moments > 500_000).all()
        assert (moments <= 2_000_000).all()
        assert set(np.diff(moments)) <= {250_000, 500_000, 750_000, 1_000_000}
        assert set(table["class_id"]) <= {0, 1}


def test_the_reader_of_gen1_reads_it_and_boxes_are_full_of_events(root):
    """Cars and people move, so there are more events where they are than elsewhere."""
    inside, area, checked = 0.0, 0.0, 0
    for split in ("train", "test"):
        data = DATASETS.create(dict(type="GEN1", data_root=root, split=split, most=20_000))
        checked += len(data)
        for sample in (data[i] for i in range(len(data))):
            events = sample["events"]
            recent = events.time_window(sample["end"] - 50_000, sample["end"] + 1)
            assert (events.height, events.width) == (240, 304)
            assert len(recent) > 0
            there = np.zeros((240, 304), bool)
            for x, y, width, height in sample["boxes"]:
                assert min(width, height) >= 10
                assert math.hypot(width, height) >= 30
                there[int(y) : int(y + height) + 1, int(x) : int(x + width) + 1] = True
            inside += there[recent.y, recent.x].mean()
            area += there.mean()
    assert checked >= 3
    assert inside > 1.5 * area


def test_a_seed_always_gives_the_same_files(root, tmp_path):
    digest = lambda home: [hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(home.glob("val/*"))]
    sample_gen1.gen1(tmp_path, 0, dict(train=0, val=1))
    assert digest(tmp_path) == digest(root)


def test_mean_boxes_are_corners_as_the_truth_is(tmp_path, make_events):
    """Where all boxes of a class are one and the same, finding it everywhere finds all."""
    rows = [(t, *box) for t in (700_000, 1_400_000) for box in ((200, 100, 40, 60, 0), (20, 90, 30, 80, 1))]
    table = np.zeros(4, [("t", "<u8"), *((name, "<f4") for name in "xywh"), ("class_id", "u1")])
    for name, column in zip(table.dtype.names or (), zip(*rows)):
        table[name] = column
    for split in ("train", "test"):
        (tmp_path / split).mkdir()
        write_dat(tmp_path / split / "a_td.dat", make_events(100, 240, 304))
        np.save(tmp_path / split / "a_bbox.npy", table)
    train, test = (DATASETS.create(dict(type="GEN1", data_root=tmp_path, split=split)) for split in ("train", "test"))
    assert list(baselines(train, test)) == [
        ("mean box of each class, mAP50", pytest.approx(1)),
        ("16 mean boxes of each class, mAP50", pytest.approx(1)),
    ]


def test_mean_boxes_find_next_to_nothing_of_the_stand_in(root):
    train, test = (DATASETS.create(dict(type="GEN1", data_root=root, split=split)) for split in ("train", "test"))
    assert all(0 <= value < 0.2 for _, value in baselines(train, test))
