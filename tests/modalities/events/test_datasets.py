"""DvsGesture, GEN1 and N-MNIST from files as they are published, and peek.py at them."""

import json
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from ndformer.framework.errors import DataError
from ndformer.framework.registry import DATASETS
from ndformer.modalities.events.datasets.gesture import DvsGesture, read_labels
from ndformer.modalities.events.formats.aedat import write_aedat3
from ndformer.modalities.events.formats.evt_dat import write_dat
from ndformer.modalities.events.formats.nmnist_bin import write_bin
from ndformer.modalities.events.formats.stream import Events
from tests.modalities.events.conftest import same
from tools import peek

REAL = Path(__file__).parents[4] / "shared" / "data" / "nmnist"


def recording(home, name, events, rows, head="class,startTime_usec,endTime_usec"):
    write_aedat3(home / f"{name}.aedat", events, packet=100)
    (home / f"{name}_labels.csv").write_text("\n".join([head, *rows]) + "\n")


@pytest.fixture
def gestures(tmp_path, make_events):
    home = tmp_path / "DvsGesture"
    home.mkdir()
    names = dict(train=["user01_led", "user21_led", "user22_led", "user23_lab"], test=["user24_led"])
    for split, listed in names.items():
        for i, name in enumerate(listed):
            events = make_events(2000, 128, 128, seed=i)
            recording(home, name, events, ["1,100,50000", "11,50001,90000"])
        (home / f"trials_to_{split}.txt").write_text("".join(f"{name}.aedat\n" for name in listed))
    return tmp_path


def test_a_gesture_is_the_events_between_its_times(gestures, make_events):
    train = DATASETS.create(dict(type="DvsGesture", data_root=gestures))
    assert train.labels.tolist() == [0, 10]
    sample, events = train[1], make_events(2000, 128, 128, seed=0)
    wanted = events.take((events.t >= 50_001) & (events.t <= 90_000))
    same(sample["events"], wanted)
    assert (sample["start"], sample["end"], sample["label"]) == (50_001, 90_000, 10)


def test_both_ends_of_a_gesture_belong_to_it(gestures):
    t = np.array([10, 20, 20, 25, 30, 30, 31])
    events = Events.from_arrays(t, t, t, 0 * t, 128, 128)
    recording(gestures / "DvsGesture", "user24_led", events, ["1,20,30"])
    assert DvsGesture(gestures, "test")[0]["events"].t.tolist() == [20, 20, 25, 30, 30]


def test_users_21_to_23_validate(gestures):
    counts = {s: len(DvsGesture(gestures / "DvsGesture", s)) for s in ("train", "val", "test")}
    assert counts == dict(train=2, val=6, test=2)


def test_overlapping_labels_end_with_the_next(gestures, make_events):
    home = gestures / "DvsGesture"
    rows = ["8,90000000,99000000", "9,100000000,110590564", "10,109000000,115000000"]
    recording(home, "user22_led", make_events(10), rows)
    assert read_labels(home / "user22_led.aedat") == [
        (90_000_000, 99_000_000, 7), (100_000_000, 108_999_999, 8), (109_000_000, 115_000_000, 9),
    ]  # fmt: skip
    recording(home, "user01_led", make_events(10), rows)
    with pytest.warns(UserWarning, match="class 9 ends 1590564 us into the next one"):
        read_labels(home / "user01_led.aedat")


def test_missing_or_wrong_parts_of_dvsgesture_are_errors(gestures, tmp_path):
    with pytest.raises(DataError, match=r"trials_to_train.txt is missing: "):
        DvsGesture(tmp_path / "nowhere")
    home = gestures / "DvsGesture"
    (home / "user01_led_labels.csv").write_text("class,start,end\n12,1,2\n")
    with pytest.raises(DataError, match="the line '12,1,2' and not class 1 to 11"):
        DvsGesture(gestures)
    for line in (b"1,50000,50000", b"1,-5,90", b"1,0,9999999999999999999999", b"\xff,1,2"):
        (home / "user01_led_labels.csv").write_bytes(b"class,start,end\n" + line + b"\n")
        with pytest.raises(DataError, match="and not class 1 to 11, start, end"):
            DvsGesture(gestures)
    (home / "user01_led_labels.csv").write_text("class,start,end\n1,5,90\n2,5,99\n")
    with pytest.raises(DataError, match="two gestures that begin at 5 us"):
        DvsGesture(gestures)
    (home / "user24_led_labels.csv").write_text("class,start,end\n")
    with pytest.raises(DataError, match="lists no gesture of the split 'test'"):
        DvsGesture(gestures, "test")
    (home / "user01_led_labels.csv").unlink()
    with pytest.raises(DataError, match="missing, but its recording exists"):
        DvsGesture(gestures)
    (home / "user24_led.aedat").unlink()
    with pytest.raises(DataError, match=r"but trials_to_test.txt lists it"):
        DvsGesture(gestures, "test")


OLD = [("ts", "<u8"), *((name, "<f4") for name in "xywh"), ("class_id", "u1")]
OLD += [("confidence", "<f4"), ("track_id", "<u4")]
NEW: Any = cast(Any, np.dtype)(
    dict(
        names=["t", "x", "y", "w", "h", "class_id", "track_id", "class_confidence"],
        formats=["<i8", "<f4", "<f4", "<f4", "<f4", "<u4", "<u4", "<f4"],
        offsets=[0, 8, 12, 16, 20, 24, 28, 32],
        itemsize=40,
    )
)
BOXES = [  # t, x, y, w, h, class
    (400_000, 10, 10, 50, 50, 0),
    (500_000, 10, 10, 280, 50, 0),  # still in the first half second
    (600_000, -5, 230, 40, 40, 1),  # cut off to 35 x 9: too small
    (600_000, 290, 100, 40, 30, 0),  # cut off to 13 x 30
    (600_000, 0, 0, 280, 100, 0),  # faulty in training
    (900_000, 20, 30, 10, 10, 0),  # diagonal too short
    (1_200_000, 0, 0, 290, 100, 1),
    (1_300_000, -40, 0, 310, 100, 0),  # cut off to 270: not faulty
    (1_400_000, 10, 10, 10, 28, 0),  # its diagonal is 29.7
    (1_450_000, 10, 10, 10, 28.5, 1),  # and this one's 30.2
]


@pytest.fixture(params=["old", "new"])
def gen1(tmp_path, request, make_events):
    for split in ("train", "val", "test"):
        (tmp_path / split).mkdir()
        write_dat(tmp_path / split / "a_td.dat", make_events(3000, 240, 304, until=1_500_000))
        table = np.zeros(len(BOXES), OLD if request.param == "old" else NEW)
        for name, column in zip(table.dtype.names or (), zip(*BOXES)):
            table[name] = column
        np.save(tmp_path / split / "a_bbox.npy", table)
    return tmp_path


def test_gen1_gives_the_last_events_before_each_moment(gen1, make_events):
    events = make_events(3000, 240, 304, until=1_500_000)
    train = DATASETS.create(dict(type="GEN1", data_root=gen1, most=700))
    assert [record.time for record in train.records] == [400_000, 600_000, 1_300_000, 1_450_000]
    for sample, moment in zip((train[0], train[1]), (400_000, 600_000)):
        stop = int((events.t <= moment).sum())
        same(sample["events"], events.take(slice(max(0, stop - 700), stop)))
        assert sample["end"] == moment
    assert DATASETS.get("GEN1")(gen1).max_events == 500_000
    assert train[0]["boxes"].tolist() == [[10, 10, 50, 50]]
    assert train[1]["boxes"].tolist() == [[290, 100, 13, 30]]


def test_gen1_evaluates_after_half_a_second_with_all_widths(gen1):
    test = DATASETS.create(dict(type="GEN1", data_root=gen1, split="test"))
    assert [record.time for record in test.records] == [600_000, 1_200_000, 1_300_000, 1_450_000]
    assert test[0]["boxes"].tolist() == [[290, 100, 13, 30], [0, 0, 280, 100]]
    assert test[0]["labels"].tolist() == [0, 0]
    assert test[1]["labels"].tolist() == [1]
    pack = dict(type="PackSpikes", threshold=2, refractory=0, reference="end")
    packed = DATASETS.create(dict(type="GEN1", data_root=gen1, split="test", transforms=[pack]))[0]
    assert set(packed["data_sample"]) == {"boxes", "labels", "path", "index"}
    assert len(packed["inputs"]["events"]) > 50


def test_events_of_a_clock_that_goes_back_are_sorted(gen1, make_events):
    events = make_events(100, 240, 304, until=400_000)
    events.t[[40, 60]] = events.t[[60, 40]]
    write_dat(gen1 / "train" / "a_td.dat", events)
    loaded = DATASETS.create(dict(type="GEN1", data_root=gen1))[0]["events"]
    assert loaded.in_order
    assert sorted(loaded.t.tolist()) == sorted(events.t.tolist())


def test_missing_parts_of_gen1_are_errors(gen1, tmp_path):
    (gen1 / "val" / "a_td.dat").unlink()
    with pytest.raises(DataError, match="a_td.dat is missing, but its boxes exist"):
        DATASETS.create(dict(type="GEN1", data_root=gen1, split="val"))
    np.save(gen1 / "test" / "a_bbox.npy", np.zeros(3, [("t", "i8")]))
    with pytest.raises(DataError, match="no class_id and no h"):
        DATASETS.create(dict(type="GEN1", data_root=gen1, split="test"))
    with pytest.raises(DataError, match=r"no _bbox.npy files"):
        DATASETS.create(dict(type="GEN1", data_root=tmp_path / "nowhere"))


GOOD = [("t", "<u8"), *((name, "<f4") for name in "xywh"), ("class_id", "i1")]
ROW = (900_000, 10, 10, 60, 60, 0)


def boxes_of(*rows, kind=GOOD):
    return np.array(list(rows), kind)


@pytest.mark.parametrize(
    "content, sentence",
    [
        (b"\x93NUMPY\x01\x00\x10\x00{'descr': (((((((", "cannot be read as events .its header is damaged"),
        (b"", "a_bbox.npy cannot be read as events"),
        (b"no array at all", "a_bbox.npy cannot be read as events"),
        (boxes_of(ROW)[None], "must be a table with a row for each"),
        (boxes_of(ROW[:5], kind=GOOD[:5]), "its boxes have no class_id"),
        (boxes_of((*ROW[:5], "car"), kind=[*GOOD[:5], ("class_id", "U3")]), "its class_id must be a number for each"),
        (boxes_of((np.nan, *ROW[1:]), kind=[("t", "f8"), *GOOD[1:]]), "its t is not finite for 1 boxes"),
        (boxes_of(ROW, (*ROW[:5], 7)), "has the label 7, but there are 2 classes, 0 to 1"),
        (boxes_of((*ROW[:5], -1)), "has the label -1, but there are 2 classes, 0 to 1"),
        (boxes_of(), "have no box that counts: sides of 10 and a diagonal of 30 pixels or more, after the first half"),
        (boxes_of((900_000, 10, 10, -60, 60, 0), (900_000, np.nan, 0, 60, 60, 0)), "have no box that counts"),
        (boxes_of((900_000, 900, 10, 60, 60, 0), (300_000, *ROW[1:])), "have no box that counts"),
    ],
)
def test_boxes_that_are_none_are_one_sentence(content, sentence, tmp_path, make_events):
    (tmp_path / "test").mkdir()
    write_dat(tmp_path / "test" / "a_td.dat", make_events(20, 240, 304))
    if isinstance(content, bytes):
        (tmp_path / "test" / "a_bbox.npy").write_bytes(content)
    else:
        np.save(tmp_path / "test" / "a_bbox.npy", content)
    with pytest.raises(DataError, match=sentence):
        DATASETS.create(dict(type="GEN1", data_root=tmp_path, split="test"))


def test_nmnist_in_its_folders_and_in_folds(tmp_path, make_events):
    for home, count in (("Train", 6), ("Test", 4)):
        for digit in range(2):
            (tmp_path / home / str(digit)).mkdir(parents=True)
            for i in range(count):
                write_bin(tmp_path / home / str(digit) / f"{i:05d}.bin", make_events(20, 34, 34, seed=i))
    kind = dict(type="NMNIST", data_root=tmp_path)
    assert [len(DATASETS.create(kind | dict(split=s))) for s in ("train", "val", "test")] == [10, 2, 8]
    tested = []
    for fold in range(5):
        parts = {s: DATASETS.create(kind | dict(split=s, folds=5, fold=fold)) for s in ("train", "val", "test")}
        assert [len(part) for part in parts.values()] == [14, 2, 4]
        paths = {s: {path for path, _ in part.records} for s, part in parts.items()}
        assert len(set.union(*paths.values())) == 20
        tested += [path for path, _ in parts["test"].records]
        seeded = DATASETS.create(kind | dict(split="test", folds=5, fold="seed"), seed=fold + 5)
        assert seeded.records == parts["test"].records
    assert len(set(tested)) == len(tested) == 20
    with pytest.raises(ValueError, match="fold must be 0 to folds - 1 or 'seed', got 5 of 5"):
        DATASETS.create(kind | dict(folds=5, fold=5))
    with pytest.raises(DataError, match=r"no folders 0 to 9 with .bin files"):
        DATASETS.create(dict(type="NMNIST", data_root=tmp_path / "nowhere"))


@pytest.mark.skipif(not REAL.is_dir(), reason="the real recordings are not here")
def test_real_recordings_of_nmnist_are_plausible():
    found = DATASETS.create(dict(type="NMNIST", data_root=REAL, folds=5))
    for i in range(0, len(found), 60):
        events = found[i]["events"]
        assert 1000 < len(events) < 10_000
        assert events.in_order
        assert 250_000 < events.t[-1] < 400_000  # three saccades of about 100 ms
        assert 0.4 < events.p.mean() < 0.6


def test_peek_describes_recordings_and_boxes(gen1, tmp_path, capsys):
    home = gen1 / "train"
    odd = Events.from_arrays([3, 4, 5], [1, 1, 1], [2_000_000, 7, 9_000_000], [1, 1, 1], 8, 8)
    write_dat(tmp_path / "b.dat", odd)
    with pytest.raises(SystemExit):
        peek.main([str(home / "a_td.dat"), str(home / "a_bbox.npy"), str(tmp_path / "b.dat"), "gone.bin", "--json"])
    dat, boxes, strange, gone = map(json.loads, capsys.readouterr().out.splitlines())
    assert (dat["format"], dat["events"], dat["height"], dat["width"]) == ("Prophesee DAT", 3000, 240, 304)
    assert dat["events_per_second"] == pytest.approx(2000, rel=0.01)
    assert len(dat["first"]) == 5
    assert dat["odd"] == []
    assert (boxes["boxes"], boxes["moments"], boxes["classes"]) == (10, 8, {"0": 7, "1": 3})
    assert boxes["odd"] == [
        "3 of 10 boxes reach out of the sensor of 240 x 304, where they are cut off",
        "3 of 10 boxes are too small to count", "3 of 10 boxes are wider than 273 pixels and left out in training",
    ]  # fmt: skip
    assert strange["odd"] == [
        "time goes back 1 times: put .ordered() after reading it", "all polarities are 1", "nothing happens for 9.0 s",
    ]  # fmt: skip
    assert "gone.bin is missing" in gone["error"]
    peek.main([str(tmp_path / "b.dat"), str(home / "a_bbox.npy")])
    text = capsys.readouterr().out
    assert "time goes back 1 times" in text
    assert "GEN1 boxes" in text
