"""Detection sets in COCO's, VOC's and YOLO's formats: the same from all three, and one sentence for what is wrong."""

import json

import numpy as np
import pytest
from PIL import Image

from ndformer.framework.errors import DataError
from ndformer.framework.registry import DATASETS

SIZES = dict(a=(40, 30), b=(20, 50), c=(16, 16))  # width, height
BOXES = dict(a=[("cow", (4, 6, 24, 16)), ("ant", (0, 0, 10, 30))], b=[("cow", (5, 10, 15, 20))], c=[])
CLASSES = ["ant", "cow"]


def image(path, name):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", SIZES[name], (9, 9, 9)).save(path)


def coco_content(**changes):
    annotations = [
        dict(image_id=i, category_id=dict(ant=7, cow=90)[label], bbox=[x1, y1, x2 - x1, y2 - y1], area=50, iscrowd=0)
        for i, name in enumerate("abc", 1)
        for label, (x1, y1, x2, y2) in BOXES[name]
    ]
    return (
        dict(
            images=[dict(id=i, file_name=f"{name}.png") for i, name in enumerate("abc", 1)],
            categories=[dict(id=90, name="cow"), dict(id=7, name="ant")],
            annotations=[dict(a, id=i) for i, a in enumerate(annotations, 1)],
        )
        | changes
    )


def coco(root, split="train", **changes):
    for name in SIZES:
        image(root / f"{split}2017" / f"{name}.png", name)
    file = root / "annotations" / f"instances_{split}2017.json"
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(coco_content(**changes)))


def voc(root, split="train"):
    for name in SIZES:
        image(root / "JPEGImages" / f"{name}.png", name)
        objects = "".join(
            f"<object><name>{label}</name><bndbox><xmin>{x1 + 1}</xmin><ymin>{y1 + 1}</ymin><xmax>{x2}</xmax>"
            f"<ymax>{y2}</ymax></bndbox></object>"
            for label, (x1, y1, x2, y2) in BOXES[name]
        )
        (root / "Annotations").mkdir(exist_ok=True)
        (root / "Annotations" / f"{name}.xml").write_text(f"<annotation>{objects}</annotation>")
    (root / "ImageSets" / "Main").mkdir(parents=True, exist_ok=True)
    (root / "ImageSets" / "Main" / f"{split}.txt").write_text("a\nb\nc\n")


def yolo(root, split="train"):
    for name, (w, h) in SIZES.items():
        image(root / "images" / split / f"{name}.png", name)
        rows = [
            f"{CLASSES.index(label)} {(x1 + x2) / 2 / w} {(y1 + y2) / 2 / h} {(x2 - x1) / w} {(y2 - y1) / h}"
            for label, (x1, y1, x2, y2) in BOXES[name]
        ]
        file = root / "labels" / split / f"{name}.txt"
        file.parent.mkdir(parents=True, exist_ok=True)
        if rows:
            file.write_text("\n".join(rows) + "\n")
    (root / "data.yaml").write_text("names: [ant, cow]\n")


WRITERS = dict(Coco=coco, PascalVOC=voc, YoloFolder=yolo)


def opened(kind, root, split="train"):
    return DATASETS.create(dict(type=kind, data_root=root, split=split, val_is_test=True))


@pytest.mark.parametrize("kind", WRITERS)
def test_all_formats_say_the_same(tmp_path, kind):
    WRITERS[kind](tmp_path)
    found = opened(kind, tmp_path)
    assert found.classes == CLASSES
    assert len(found) == 3
    for sample, name in zip((found[i] for i in range(len(found))), "abc"):
        assert sample["image"].size == SIZES[name]
        assert sample["size"] == SIZES[name][::-1]
        np.testing.assert_allclose(sample["boxes"], np.reshape([box for _, box in BOXES[name]], (-1, 4)), atol=1e-9)
        assert [CLASSES[i] for i in sample["labels"]] == [label for label, _ in BOXES[name]]
        assert np.array_equal(sample["truth"]["boxes"], sample["boxes"])


@pytest.mark.parametrize("kind", WRITERS)
def test_val_is_the_test_set_where_there_is_no_other(tmp_path, kind):
    WRITERS[kind](tmp_path)
    WRITERS[kind](tmp_path, "val")
    assert len(opened(kind, tmp_path, "test")) == 3
    assert opened(kind, tmp_path, "test").found.keys() == {"train", "test"}
    held_out = DATASETS.create(dict(type=kind, data_root=tmp_path, split="val"))
    assert (len(held_out), held_out.name(0)[-5:]) == (1, "a.png")  # of train
    with pytest.raises(DataError, match="is missing: put"):
        opened(kind, tmp_path / "nothing")


def test_crowds_are_left_out_of_training_and_stay_in_the_truth(tmp_path):
    content = coco_content()
    content["annotations"][0]["iscrowd"] = 1
    coco(tmp_path, annotations=content["annotations"])
    sample = opened("Coco", tmp_path)[0]
    assert sample["labels"].tolist() == [0]
    assert sample["truth"]["crowd"].tolist() == [True, False]
    assert sample["truth"]["area"].tolist() == [50, 50]
    assert opened("Coco", tmp_path).categories == [7, 90]


def test_boxes_beyond_the_image_are_cut_off_and_empty_ones_left_out(tmp_path):
    boxes = [[-5, -5, 15, 15], [100, 0, 5, 5], [3, 3, 0, 4], [39, 29, 1, 1]]
    annotations = [dict(id=i, image_id=1, category_id=7, bbox=box) for i, box in enumerate(boxes)]
    coco(tmp_path, annotations=annotations)
    sample = opened("Coco", tmp_path)[0]
    assert sample["boxes"].tolist() == [[0, 0, 10, 10], [39, 29, 40, 30]]
    assert len(sample["truth"]["boxes"]) == 4


def test_exports_with_a_file_in_each_folder(tmp_path):
    for name in SIZES:
        image(tmp_path / "train" / f"{name}.png", name)
        image(tmp_path / "valid" / f"{name}.png", name)
    for split in ("train", "valid"):
        (tmp_path / split / "_annotations.coco.json").write_text(json.dumps(coco_content()))
    assert opened("Coco", tmp_path, "test")[1]["size"] == (50, 20)


def test_splits_that_number_classes_differently_are_refused(tmp_path):
    coco(tmp_path)
    coco(tmp_path, "val", categories=[dict(id=90, name="ant"), dict(id=7, name="cow")])
    with pytest.raises(DataError, match="list different categories"):
        opened("Coco", tmp_path, "test")


def test_the_other_habits_of_yolo_folders(tmp_path):
    yolo(tmp_path / "one")
    (tmp_path / "one" / "images" / "train").rename(tmp_path / "images")
    (tmp_path / "one" / "labels" / "train").rename(tmp_path / "labels")
    (tmp_path / "train").mkdir()
    (tmp_path / "images").rename(tmp_path / "train" / "images")
    (tmp_path / "labels").rename(tmp_path / "train" / "labels")
    with pytest.raises(DataError, match=r"data\.yaml is missing: put names"):
        opened("YoloFolder", tmp_path)
    (tmp_path / "classes.txt").write_text("ant\ncow\n")
    assert opened("YoloFolder", tmp_path).classes == CLASSES
    (tmp_path / "data.yaml").write_text("names:\n  0: bee\n  1: cat\n")
    assert opened("YoloFolder", tmp_path).classes == ["bee", "cat"]


WRONG = {
    "a class too many": (
        "YoloFolder",
        "labels/train/a.txt",
        "2 0.5 0.5 1 1",
        "has the label 2, but there are 2 classes, 0 to 1: name it or mend it",
    ),
    "half a class": (
        "YoloFolder",
        "labels/train/a.txt",
        "0.5 0.5 0.5 1 1",
        "has the label 0.5, but there are 2 classes",
    ),
    "four numbers": (
        "YoloFolder",
        "labels/train/a.txt",
        "\n0 0.5 0.5 1",
        "row 2 of .* is '0 0.5 0.5 1': it takes five",
    ),
    "a name": ("YoloFolder", "labels/train/a.txt", "cow 0.5 0.5 1 1", "row 1 of .* it takes five numbers"),
    "no xml": ("PascalVOC", "Annotations/a.xml", "<annotation>", "is not xml"),
    "no number": (
        "PascalVOC",
        "Annotations/b.xml",
        "<annotation><object><name>cow</name><bndbox><xmin>3</xmin></bndbox></object></annotation>",
        "object 0 of .* has the box .* are numbers",
    ),
    "no image name": (
        "Coco",
        "annotations/instances_train2017.json",
        json.dumps(coco_content(images=[dict(id=i) for i in (1, 2, 3)])),
        "image 1 of .* has no 'file_name'",
    ),
    "unknown category": (
        "Coco",
        "annotations/instances_train2017.json",
        json.dumps(coco_content(categories=[dict(id=90, name="cow")])),
        "of category 7, which the ground truth does not list",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_annotations_are_one_sentence(tmp_path, case):
    kind, name, content, sentence = WRONG[case]
    WRITERS[kind](tmp_path)
    (tmp_path / name).write_text(content)
    with pytest.raises(DataError, match=sentence) as error:
        opened(kind, tmp_path)
    assert "\n" not in str(error.value)


def test_a_class_that_train_does_not_have(tmp_path):
    voc(tmp_path)
    voc(tmp_path, "test")
    (tmp_path / "ImageSets" / "Main" / "train.txt").write_text("b\n")
    with pytest.raises(DataError, match=r"a\.xml has a 'ant', which no image of train has"):
        opened("PascalVOC", tmp_path, "test")


@pytest.mark.parametrize("kind", WRITERS)
def test_a_missing_or_broken_image_is_one_sentence(tmp_path, kind):
    WRITERS[kind](tmp_path)
    path = next(tmp_path.rglob("a.png"))
    path.write_bytes(path.read_bytes()[:30])
    with pytest.raises(DataError, match=r"a\.png cannot be read as an image"):
        opened(kind, tmp_path)[0]
