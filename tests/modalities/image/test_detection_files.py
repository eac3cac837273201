"""Detection sets in COCO's, VOC's and YOLO's formats: the same from all three, and one sentence for what is wrong."""

import json
from pathlib import Path

import numpy as np
import pytest

from ndformer.framework.answers.boxes import Boxes
from ndformer.framework.data.describe import describe
from ndformer.framework.errors import DataError
from ndformer.framework.evaluation.coco import views
from ndformer.framework.registry import DATASETS, METRICS
from ndformer.modalities.image.datasets.yolo_folders import label_file
from tests.modalities.image.layouts import BOXES, CLASSES, SIZES, coco, coco_content, image, voc, yolo

WRITERS = dict(Coco=coco, PascalVOC=voc, YoloFolder=yolo)


def opened(kind, root, split="train"):
    return DATASETS.create(dict(type=kind, data_root=root, split=split, val_is_test=True))


@pytest.mark.parametrize("kind", WRITERS)
def test_all_formats_give_the_same_samples(tmp_path, kind):
    WRITERS[kind](tmp_path)
    found = opened(kind, tmp_path)
    assert found.classes == CLASSES
    assert len(found) == 3
    for sample, name in zip(map(found.__getitem__, range(3)), "abc"):
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
    assert opened(kind, tmp_path, "test").disk_splits.keys() == {"train", "test"}
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
    for split in ("train", "valid"):
        for name, size in SIZES.items():
            image(tmp_path / split / f"{name}.png", size)
        (tmp_path / split / "_annotations.coco.json").write_text(json.dumps(coco_content()))
    assert opened("Coco", tmp_path, "test")[1]["size"] == (50, 20)


def test_splits_that_number_classes_differently_are_refused(tmp_path):
    coco(tmp_path)
    coco(tmp_path, "val", categories=[dict(id=90, name="ant"), dict(id=7, name="cow")])
    with pytest.raises(DataError, match="list different categories"):
        opened("Coco", tmp_path, "test")


def test_names_of_yolo_come_from_data_yaml_or_from_a_list(tmp_path):
    roboflow(tmp_path)
    (tmp_path / "data.yaml").unlink()
    with pytest.raises(DataError, match=r"data\.yaml is missing: put names"):
        opened("YoloFolder", tmp_path)
    (tmp_path / "classes.txt").write_text("ant\ncow\n")
    assert opened("YoloFolder", tmp_path).classes == CLASSES
    (tmp_path / "data.yaml").write_text("names:\n  0: bee\n  1: cat\n")
    assert opened("YoloFolder", tmp_path).classes == ["bee", "cat"]
    keys = ", ".join(f"'{n}': n{n}" for n in range(12))  # sorted as text, 10 came before 2
    (tmp_path / "data.yaml").write_text(f"names: {{{keys}}}\n")
    assert opened("YoloFolder", tmp_path).classes == [f"n{n}" for n in range(12)]
    (tmp_path / "data.yaml").write_text("names: {0: ant, 2: cow}\n")
    assert opened("YoloFolder", tmp_path).classes == ["ant", "1", "cow"]
    for names in ("{ant: 0, cow: 1}", "{0: ant, 2000000000: cow}", "{-1: ant}"):
        (tmp_path / "data.yaml").write_text(f"names: {names}\n")
        with pytest.raises(DataError, match="expected class numbers from 0 to 9999 before its names"):
            opened("YoloFolder", tmp_path)


ROWS, LIST = "labels/train/a.txt", "annotations/instances_train2017.json"
HALF_A_BOX = "<annotation><object><name>cow</name><bndbox><xmin>3</xmin></bndbox></object></annotation>"


@pytest.mark.parametrize(
    "kind, name, content, sentence",
    [
        (
            "YoloFolder",
            ROWS,
            "2 0.5 0.5 1 1",
            "has the label 2, but there are 2 classes, 0 to 1: name it or correct it",
        ),
        ("YoloFolder", ROWS, "0.5 0.5 0.5 1 1", "has the label 0.5, but there are 2 classes"),
        ("YoloFolder", ROWS, "\n0 0.5 0.5 1", "row 2 of .* must have five numbers, .* got '0 0.5 0.5 1'"),
        ("YoloFolder", ROWS, "cow 0.5 0.5 1 1", "row 1 of .* must have five numbers"),
        ("PascalVOC", "Annotations/a.xml", "<annotation>", "is not xml"),
        ("PascalVOC", "Annotations/b.xml", HALF_A_BOX, "object 0 of .* has the box .* must be numbers"),
        ("Coco", LIST, coco_content(images=[dict(id=i) for i in (1, 2, 3)]), "image 1 of .* has no 'file_name'"),
        (
            "Coco",
            LIST,
            coco_content(categories=[dict(id=90, name="cow")]),
            "of category 7, which the ground truth does",
        ),
    ],
)
def test_wrong_annotations_are_one_sentence(tmp_path, kind, name, content, sentence):
    WRITERS[kind](tmp_path)
    (tmp_path / name).write_text(content if isinstance(content, str) else json.dumps(content))
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


def test_a_picture_of_another_size_than_its_annotation_is_an_error(tmp_path):
    """detectron2 refuses it too; programs that do not look train on boxes that are elsewhere."""
    coco(tmp_path, claims=SIZES | dict(b=(40, 100), c=(0, 0)))  # the latter of a program that does not know
    found = opened("Coco", tmp_path)
    assert found[0]["size"] == (30, 40)
    assert found[2]["size"] == (16, 16)
    with pytest.raises(DataError, match=r"b\.png has 20 x 50 pixels, but its annotation is for an image of 40 x 100"):
        found[1]
    found.skip_bad = True
    assert found[1]["bad"][0][0].endswith("b.png")
    described = describe(tmp_path / "annotations" / "instances_train2017.json", 5)["odd"]
    assert "1 of 2 pictures are not as large as it says" in described[-1]
    assert described[-1].endswith("b.png has 20 x 50 pixels, but the list claims 40 x 100")


def test_the_size_in_voc_must_match_the_picture(tmp_path):
    voc(tmp_path, claims=SIZES | dict(b=(20, 49)))
    found = opened("PascalVOC", tmp_path)
    assert found[0]["size"] == (30, 40)
    with pytest.raises(DataError, match=r"b\.png has 20 x 50 pixels"):
        found[1]


def test_difficult_objects_of_voc_are_neither_trained_on_nor_counted(tmp_path):
    voc(tmp_path)
    file = tmp_path / "Annotations" / "a.xml"
    file.write_text(file.read_text().replace("</object>", "<difficult>1</difficult></object>", 1))
    sample = opened("PascalVOC", tmp_path)[0]
    assert sample["labels"].tolist() == [0]  # the ant; the cow is difficult
    metric = METRICS.create(dict(type="CocoMetric"))
    cow, ant = sample["truth"]["boxes"]
    for found in ((ant,), (ant, cow), (ant, cow, cow)):
        labels = [0] + [1] * (len(found) - 1)
        boxes = np.array(found)
        seen = Boxes(sample=sample, boxes=boxes, labels=np.array(labels), scores=np.linspace(0.5, 0.9, len(found)))
        verdict = seen.compared(0.1)
        assert (verdict.object_count, len(verdict.missed)) == (1, 0)
        values = metric.compute_metrics([("a", sample["truth"], seen.predictions)])
        assert values["mAP50"] == pytest.approx(1)  # of ants: nobody is asked for cows
        counts = views.confusion(metric.truth, metric.detections, 2)
        assert counts[0, 0] == 1
        assert counts[2, 1] == len(found) - 1 - (len(found) > 1)  # the second cow is one too many
    assert "1 objects are difficult" in describe(file, 5)["odd"][-1]


SHAPES = """0 0.5 0.5 0.2 0.4
1 0.1 0.2 0.4 0.1 0.3 0.6
1 0.5 0.1 0.9 0.5 0.5 0.9 0.1 0.5
"""  # a box; a triangle; a square on its corner, as OBB has it


def test_shapes_of_yolo_become_bounding_boxes_with_a_warning(tmp_path):
    yolo(tmp_path)
    file = tmp_path / "labels" / "train" / "c.txt"
    file.write_text(SHAPES)
    with pytest.warns(
        UserWarning, match="of 6 objects there are 1 polygons, 1 oriented boxes or shapes of four corners"
    ):
        found = opened("YoloFolder", tmp_path)[2]
    expected = [(0.4, 0.3, 0.6, 0.7), (0.1, 0.1, 0.4, 0.6), (0.1, 0.1, 0.9, 0.9)]
    np.testing.assert_allclose(found["boxes"], np.array(expected) * 16)
    assert found["labels"].tolist() == [0, 1, 1]
    described = describe(file, 5)
    assert described["boxes"] == 3
    assert described["first"][1] == dict(label=1, x=0.25, y=0.35, width=0.3, height=0.5)
    assert "their bounding boxes are taken" in described["odd"][-1]
    file.write_text(SHAPES.splitlines()[2])
    assert describe(file, 5)["format"] == "YOLO boxes"


def test_key_points_are_left_and_scores_are_no_labels(tmp_path):
    yolo(tmp_path)
    file = tmp_path / "labels" / "train" / "c.txt"
    file.write_text("0 0.5 0.5 0.2 0.4  0.5 0.5 2  0.4 0.4 0")
    (tmp_path / "data.yaml").write_text("names: [ant, cow]\nkpt_shape: [2, 3]\n")
    with pytest.warns(UserWarning, match="1 boxes with key points"):
        found = opened("YoloFolder", tmp_path)
    np.testing.assert_allclose(found[2]["boxes"], np.array([(0.4, 0.3, 0.6, 0.7)]) * 16)
    file.write_text("0 0.5 0.5 0.2 0.4 0.97")
    with pytest.raises(DataError, match="A sixth number is the score of a prediction"):
        opened("YoloFolder", tmp_path)


def ultralytics(root):
    """`path` is of the machine that wrote it; train is two folders."""
    yolo(root)
    (root / "images" / "more").mkdir()
    (root / "images" / "train" / "c.png").rename(root / "images" / "more" / "c.png")
    (root / "data.yaml").write_text(
        "path: ../datasets/mine\ntrain: [images/train, images/more]\nval: images/train\nnames: {0: ant, 1: cow}\n"
    )


def roboflow(root):
    yolo(root / "one")
    (root / "train").mkdir()
    for kind in ("images", "labels"):
        (root / "one" / kind / "train").rename(root / "train" / kind)
    (root / "data.yaml").write_text("train: ../train/images\nval: ../valid/images\nnc: 2\nnames: ['ant', 'cow']\n")


def in_one_folder(root, home):
    yolo(root / "one")
    (root / home).mkdir(parents=True)
    for file in root.glob("one/*/train/*"):
        file.rename(root / home / file.name)


def roboflow_for_darknet(root):
    in_one_folder(root, "train")
    (root / "train" / "_darknet.labels").write_text("ant\ncow\n")


def darknet(root, home="data/obj", named="data/obj"):
    in_one_folder(root, home)
    where = (root / home).parent
    (where / "obj.names").write_text("ant\ncow\n")
    (where / "train.txt").write_text("".join(f"{named}/{name}.png\n" for name in "abc"))
    (root / "obj.data").write_text("classes = 2\ntrain  = data/train.txt\nnames = data/obj.names\nbackup = backup/\n")


def cvat(root):
    darknet(root, "obj_train_data", "data/obj_train_data")


def lists_of_another_machine(root):
    yolo(root)
    lines = [f"/home/them/mine/images/train/{name}.png" for name in "ab"] + ["C:\\mine\\images\\train\\c.png"]
    (root / "train.txt").write_text("\n".join(lines))
    (root / "data.yaml").write_text("train: train.txt\nval: /home/them/mine/val.txt\nnames: [ant, cow]\n")


def folders_in_folders(root):
    yolo(root)
    for kind in ("images", "labels"):
        (root / kind / "train").rename(root / kind / "monday")
        (root / kind / "train").mkdir()
        (root / kind / "monday").rename(root / kind / "train" / "monday")


LAYOUTS = (folders_in_folders, ultralytics, roboflow, roboflow_for_darknet, darknet, cvat, lists_of_another_machine)


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda one: one.__name__)
@pytest.mark.filterwarnings("error")
def test_the_layouts_of_yolo_give_the_same_samples(tmp_path, layout):
    layout(tmp_path)
    found = opened("YoloFolder", tmp_path)
    assert found.classes == CLASSES
    assert len(found) == 3
    for sample, name in zip((found[i] for i in range(3)), "abc"):
        assert Path(sample["path"]).name == f"{name}.png"
        np.testing.assert_allclose(sample["boxes"], np.reshape([box for _, box in BOXES[name]], (-1, 4)), atol=1e-9)


def test_lists_of_yolo_do_not_lead_out_of_the_folder(tmp_path):
    outside = image(tmp_path / "secret.png", SIZES["a"])
    root = tmp_path / "set"
    yolo(root)
    (root / "train.txt").write_text(f"../secret.png\n{outside}\n")
    (root / "data.yaml").write_text("train: train.txt\nval: ../..\nnames: [ant, cow]\n")
    with pytest.raises(DataError, match="none of the 2 training images"):
        opened("YoloFolder", root)
    (root / "labels").mkdir(exist_ok=True)
    (root / "secret.txt").write_text("0 0.5 0.5 1 1")
    with pytest.raises(DataError, match=r"set/.*secret\.png"):
        opened("YoloFolder", root)


def test_labels_of_yolo_are_beside_the_innermost_folder_of_images(tmp_path):
    assert label_file(tmp_path, tmp_path / "images/day/images/a.jpg") == tmp_path / "images/day/labels/a.txt"
