"""tools/peek.py on files of images, events, clouds, labels and boxes."""

import json

import numpy as np
import pytest
from PIL import Image

from ndformer.framework.errors import DataError
from ndformer.modalities.events.formats.evt_dat import write_dat
from ndformer.modalities.events.formats.stream import Events
from tests.modalities.events.conftest import WRITERS, random_events
from tools import peek


@pytest.fixture
def told(capsys):
    def tell(*paths):
        peek.main([*map(str, paths)])
        words = capsys.readouterr().out
        assert all(str(path) in words for path in paths)
        peek.main([*map(str, paths), "--json"])
        found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        for path, one in zip(paths, found):
            assert (one["file"], one["bytes"]) == (str(path), path.stat().st_size)
            assert one["format"]
        return found

    return tell


def test_boxes_of_coco_voc_and_yolo(tmp_path, told):
    images = [dict(id=i, file_name=f"{i}.jpg", width=100, height=80) for i in (4, 9)]
    boxes = [
        dict(id=1, image_id=4, category_id=2, bbox=[90, 10, 20, 5]),
        dict(id=2, image_id=4, category_id=2, bbox=[1, 2, 3, 4], iscrowd=1),
    ]
    names = [dict(id=2, name="cat"), dict(id=3, name="dog")]
    truth = dict(images=images, annotations=boxes, categories=names)
    (tmp_path / "train.json").write_text(json.dumps(truth))
    rows = "".join(
        f"<object><name>{n}</name><bndbox><xmin>{x}</xmin><ymin>1</ymin><xmax>{x + 9}</xmax><ymax>9</ymax></bndbox>"
        "</object>"
        for n, x in (("cup", 1), ("cup", 95), ("pen", 3))
    )
    (tmp_path / "a.xml").write_text(
        f"<annotation><size><width>100</width><height>50</height></size>{rows}</annotation>"
    )
    (tmp_path / "b.txt").write_text("0 0.5 0.5 0.2 0.2\n2 0.95 0.5 0.2 0.1\n0 0.5 0.5 0 0.1\n")
    coco, voc, yolo = told(tmp_path / "train.json", tmp_path / "a.xml", tmp_path / "b.txt")
    assert (coco["images"], coco["boxes"], coco["crowds"], coco["classes"]) == (2, 2, 1, dict(cat=2, dog=0))
    assert coco["odd"] == ["1 images have no box", "1 classes have no box", "1 boxes reach out of their images"]
    assert coco["first"][0] == dict(image=4, name="cat", x=90, y=10, width=20, height=5)
    assert (voc["width"], voc["height"], voc["boxes"], voc["classes"]) == (100, 50, 3, dict(cup=2, pen=1))
    assert voc["odd"] == ["1 boxes reach out of their images"]
    assert (yolo["boxes"], yolo["classes"]) == (3, {"0": 2, "2": 1})
    assert yolo["odd"] == ["1 boxes reach out of their images", "1 boxes have no area"]
    assert yolo["first"][1] == dict(label=2, x=0.95, y=0.5, width=0.2, height=0.1)


def test_clouds_of_modelnet_in_hdf5(tmp_path, told):
    h5py = pytest.importorskip("h5py")
    points = np.random.default_rng(0).normal(size=(3, 50, 3)).astype(np.float32)
    points[1, 7] = np.nan
    with h5py.File(tmp_path / "ply_data_train0.h5", "w") as file:
        file["data"], file["label"] = points, np.array([[1], [1], [4]], np.uint8)
    with h5py.File(tmp_path / "events.h5", "w") as file:
        for name in "xytp":
            file[f"events/{name}"] = np.arange(5)
    clouds, events = told(tmp_path / "ply_data_train0.h5", tmp_path / "events.h5")
    assert (clouds["clouds"], clouds["points"], clouds["normals"]) == (3, 50, False)
    assert clouds["classes"] == {"1": 2, "4": 1}
    assert clouds["odd"] == ["1 clouds have points that are not finite"]
    assert events["events"] == 5


def test_arrays_and_annotations_of_scannet(tmp_path, told):
    np.save(tmp_path / "segment20.npy", np.array([0, 2, 2, -1], np.int64))
    np.save(tmp_path / "color.npy", np.arange(12, dtype=np.uint8).reshape(4, 3))
    np.save(tmp_path / "coord.npy", np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32))
    (tmp_path / "s.segs.json").write_text(json.dumps(dict(segIndices=[1, 1, 5, 7])))
    groups = [dict(id=0, label="chair", segments=[1, 5]), dict(id=1, label="desk", segments=[7])]
    (tmp_path / "s.aggregation.json").write_text(json.dumps(dict(segGroups=groups)))
    names = ("segment20.npy", "color.npy", "coord.npy", "s.segs.json", "s.aggregation.json")
    label, color, places, segments, objects = told(*(tmp_path / name for name in names))
    assert (label["shape"], label["classes"]) == ("4", {"-1": 1, "0": 1, "2": 2})
    assert label["odd"] == ["1 of 4 have the label -1, which is none"]
    assert (color["dtype"], color["smallest"], color["largest"]) == ("uint8", 0, 11)
    assert places["points"] == 40
    assert (segments["vertices"], segments["segments"]) == (4, 3)
    assert (objects["objects"], objects["classes"]) == (2, dict(chair=1, desk=1))


def test_boxes_of_gen1_that_are_odd(tmp_path, told):
    kind = [("t", "i8"), *((name, "f4") for name in "xywh"), ("class_id", "u1")]
    good = (5, 10, 10, 60, 60, 0)
    rows = [good, (4, 10, 10, 60, 60, 7), (9, np.nan, 1, 50, 50, 1), (9, -5, 10, 60, 60, 1), (9, 10, 10, 9, 80, 0)]
    np.save(tmp_path / "a_bbox.npy", np.array([*rows, (9, 0, 10, 280, 60, 0)], kind))
    np.save(tmp_path / "b_bbox.npy", np.array([], kind))
    odd, none = told(tmp_path / "a_bbox.npy", tmp_path / "b_bbox.npy")
    assert odd["odd"] == [
        "1 of 6 boxes come after one of a later time", "1 of 6 boxes have places or sizes that are not finite",
        "1 of 6 boxes reach out of the sensor of 240 x 304, where they are cut off",
        "1 of 6 boxes are of a class that is not 0 (car) or 1 (pedestrian)", "1 of 6 boxes are too small to count",
        "1 of 6 boxes are wider than 273 pixels and left out in training",
    ]  # fmt: skip
    assert odd["first"][2]["x"] is None  # JSON has no NaN
    assert none["odd"] == ["it holds no boxes"]


@pytest.mark.parametrize("ending", ["jpg", "jpeg", "png", "bmp", "webp", "ppm", "tif", "tiff", "gif"])
def test_every_kind_of_image(tmp_path, told, ending):
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (6, 9, 3), dtype=np.uint8)).save(tmp_path / f"a.{ending}")
    (found,) = told(tmp_path / f"a.{ending}")
    assert (found["height"], found["width"], len(found["first"])) == (6, 9, 5)


@pytest.mark.parametrize("name", list(WRITERS))
def test_every_kind_of_events(tmp_path, told, name):
    events = random_events(900, until=30_000)
    if name == "l.aedat4":
        pytest.importorskip("aedat")
    WRITERS[name](tmp_path / name, events)
    (found,) = told(tmp_path / name)
    assert (found["events"], found["start_us"], found["end_us"]) == (900, events.t[0], events.t[-1])
    assert found["seconds"] == pytest.approx((events.t[-1] - events.t[0]) / 1e6)
    assert found["events_per_second"] == pytest.approx(30_000, rel=0.01)
    assert found["positive_share"] == pytest.approx(events.p.mean(), abs=1e-4)
    assert (found["x"], found["y"], found["odd"]) == ([0, 31], [0, 31], [])
    assert found["first"][1] == dict(x=events.x[1], y=events.y[1], t=events.t[1], p=events.p[1])


def test_pixels_that_are_stuck_or_none(tmp_path, told):
    events = random_events(2000)
    events.x[:200], events.y[:200] = 7, 9
    wide = Events.from_arrays(events.x, events.y, events.t, events.p, 240, 304)
    wide.x[300] = 16_000
    write_dat(tmp_path / "a.dat", wide)
    (found,) = told(tmp_path / "a.dat")
    often = int(((wide.x == 7) & (wide.y == 9)).sum())
    assert found["odd"] == [
        "1 events lie outside of the sensor of 240 x 304",
        f"the pixel at row 9, column 7 has {often} of all events: it may be stuck",
    ]


@pytest.mark.parametrize("ending", ["txt", "xyz", "npy", "off", "ply"])
def test_every_kind_of_cloud(tmp_path, told, ending):
    points, path = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32), tmp_path / f"a.{ending}"
    rows = "\n".join(" ".join(map(str, point)) for point in points.tolist())
    head = "ply\nformat ascii 1.0\nelement vertex 40\n" + "".join(f"property float {a}\n" for a in "xyz")
    if ending == "npy":
        np.save(path, points)
    else:
        mesh = f"OFF\n40 1 0\n{rows}\n3 0 1 2\n"
        path.write_text({"off": mesh, "ply": f"{head}end_header\n{rows}\n"}.get(ending, rows + "\n"))
    (found,) = told(path)
    assert found["points"] == (10_000 if ending == "off" else 40)
    if ending != "off":
        assert found["z"] == [round(float(v), 4) for v in (points[:, 2].min(), points[:, 2].max())]


def test_a_file_of_no_known_kind_is_told_all_that_are(tmp_path):
    (tmp_path / "notes.md").write_text("hello")
    with pytest.raises(DataError, match=r"unknown format, by its name.*\.aedat.*\.avi.*\.jpg.*\.ply"):
        peek.describe(tmp_path / "notes.md", 5)
    (tmp_path / "recording").write_bytes(b"#!AER-DAT2.0\r\n" + bytes(8))  # known by its beginning
    assert peek.describe(tmp_path / "recording", 5)["format"] == "AEDAT 2.0"


@pytest.mark.parametrize(
    "name, content",
    [
        ("a_bbox.npy", b"no"),
        ("d.json", b"{"),
        ("e.xml", b"<annotation><object></annotation>"),
        ("f.txt", b"0 0.5 0.5 0.1 0.1\n1 2\n"),
        ("g.h5", b"\x89HDF"),
        ("h.npy", b"\x93NUMPY\x01\x00"),
        ("i.segs.json", b"[]"),
        ("gone.xml", None),
    ],
)
def test_damaged_files_are_a_sentence(tmp_path, capsys, name, content):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(SystemExit):
        peek.main([str(tmp_path / name), "--json"])
    (line,) = capsys.readouterr().out.splitlines()
    assert name in json.loads(line)["error"]
