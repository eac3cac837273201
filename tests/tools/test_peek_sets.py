"""tools/peek.py on files of many images, clouds, labels and boxes."""

import gzip
import json
import pickle
import struct

import numpy as np
import pytest

from ndformer.modalities.image.matlab import write_mat
from tools import peek


def idx(array):
    return bytes((0, 0, 8, array.ndim)) + struct.pack(f">{array.ndim}i", *array.shape) + array.tobytes()


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


def test_idx_files_of_images_and_labels_gzipped_or_not(tmp_path, told):
    images = np.random.default_rng(0).integers(0, 256, (7, 4, 5), dtype=np.uint8)
    images[2], images[5] = 9, images[1]
    (tmp_path / "t10k-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx(images)))
    (tmp_path / "t10k-labels.idx1-ubyte").write_bytes(idx(np.array([3, 3, 1, 0, 3, 1, 1], np.uint8)))
    pixels, labels = told(tmp_path / "t10k-images-idx3-ubyte.gz", tmp_path / "t10k-labels.idx1-ubyte")
    assert (pixels["images"], pixels["height"], pixels["width"]) == (7, 4, 5)
    assert pixels["mean"] == round(float(images.mean()), 1)
    assert pixels["odd"] == ["1 images are of one colour", "1 images are the same as another one"]
    assert (labels["labels"], labels["classes"]) == (7, {"0": 1, "1": 3, "3": 3})
    assert [row["label"] for row in labels["first"]] == [3, 3, 1, 0, 3]


def test_pickles_of_cifar(tmp_path, told):
    data = np.random.default_rng(0).integers(0, 256, (4, 3072), dtype=np.uint8)
    for name, content in (
        ("data_batch_1", dict(data=data, labels=[1, 1, 0, 9])),
        ("train", dict(data=data, fine_labels=[5, 5, 5, 5])),
        ("test", dict(data=data, labels=[1])),
        ("batches.meta", dict(label_names=["cat", "dog"])),
    ):
        (tmp_path / name).write_bytes(pickle.dumps(content, protocol=2))
    batch, train, wrong = told(*(tmp_path / name for name in ("data_batch_1", "train", "test")))
    assert (batch["images"], batch["height"], batch["width"]) == (4, 32, 32)
    assert (batch["classes"], batch["odd"]) == ({"0": 1, "1": 2, "9": 1}, [])
    assert train["odd"] == ["all labels are 5"]
    assert wrong["odd"] == ["it has not one whole number as label for each image"]


def test_arrays_of_matlab(tmp_path, told):
    write_mat(tmp_path / "setid.mat", dict(trnid=np.arange(1, 21)[None], valid=np.array([[7]])))
    (found,) = told(tmp_path / "setid.mat")
    assert (found["arrays"], found["trnid"]) == (2, "1 x 20 uint16")
    assert found["first"][0] == dict(array="trnid", smallest=1, largest=20)


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
    label, colour, places, segments, objects = told(*(tmp_path / name for name in names))
    assert (label["shape"], label["classes"]) == ("4", {"-1": 1, "0": 1, "2": 2})
    assert label["odd"] == ["1 of 4 have the label -1, which is none"]
    assert (colour["dtype"], colour["smallest"], colour["largest"]) == ("uint8", 0, 11)
    assert places["points"] == 40
    assert (segments["vertices"], segments["segments"]) == (4, 3)
    assert (objects["objects"], objects["classes"]) == (2, dict(chair=1, desk=1))


@pytest.mark.parametrize(
    "name, content",
    [
        ("a-idx3-ubyte", bytes((0, 0, 8, 3)) + bytes(9)),
        ("b-idx1-ubyte.gz", gzip.compress(bytes((0, 0, 8, 1)) + bytes(9), mtime=0)[:-4]),
        ("data_batch_2", b"\x80\x02cos\nsystem\n(S'ls'\ntR."),
        ("c.mat", b"MATLAB 5.0"),
        ("d.json", b"{"),
        ("e.xml", b"<annotation><object></annotation>"),
        ("f.txt", b"0 0.5 0.5 0.1 0.1\n1 2\n"),
        ("g.h5", b"\x89HDF"),
        ("h.npy", b"\x93NUMPY\x01\x00"),
        ("i.segs.json", b"[]"),
        ("gone.mat", None),
    ],
)
def test_damaged_files_are_a_sentence(tmp_path, capsys, name, content):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(SystemExit):
        peek.main([str(tmp_path / name), "--json"])
    (line,) = capsys.readouterr().out.splitlines()
    assert name in json.loads(line)["error"]
