"""A test set without class names has the checkpoint's classes, in its order."""

import json
from functools import partial

import numpy as np
import pytest
from PIL import Image

from ndformer.framework.data.dataset import create
from ndformer.framework.errors import DataError

KNOWN = ["bird", "cat", "dog"]
TETRAHEDRON = "OFF\n4 4 0\n0 0 0\n1 0 0\n0 1 0\n0 0 1\n3 0 1 2\n3 0 1 3\n3 0 2 3\n3 1 2 3\n"


def picture(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (8, 8), (9, 9, 9)).save(path)


def per_class(pattern, root):
    """Write a file for each class."""
    for name in ("cat", "dog"):
        if pattern.endswith("png"):
            picture(root / pattern.format(name))
        else:
            (root / pattern.format(name)).parent.mkdir(parents=True)
            (root / pattern.format(name)).write_text(TETRAHEDRON)


def voc(root):
    (root / "Annotations").mkdir()
    (root / "ImageSets" / "Main").mkdir(parents=True)
    (root / "ImageSets" / "Main" / "test.txt").write_text("a\nb\n")
    for name, kind in (("a", "dog"), ("b", "cat")):
        picture(root / "JPEGImages" / f"{name}.png")
        box = "<bndbox><xmin>1</xmin><ymin>1</ymin><xmax>4</xmax><ymax>4</ymax></bndbox>"
        xml = f"<annotation><object><name>{kind}</name>{box}</object></annotation>"
        (root / "Annotations" / f"{name}.xml").write_text(xml)


def coco(root):
    """Its categories are in another order, and one is missing."""
    picture(root / "test" / "a.png")
    categories = [dict(id=4, name="dog"), dict(id=7, name="cat")]
    boxes = [dict(id=i, image_id=1, category_id=c, bbox=[0, 0, 3, 3]) for i, c in enumerate((4, 7))]
    content = dict(images=[dict(id=1, file_name="a.png")], annotations=boxes, categories=categories)
    (root / "test" / "_annotations.coco.json").write_text(json.dumps(content))


def yolo(root):
    picture(root / "images" / "test" / "a.png")
    (root / "labels" / "test").mkdir(parents=True)
    (root / "labels" / "test" / "a.txt").write_text("2 0.5 0.5 0.2 0.2\n1 0.5 0.5 0.2 0.2\n")


def masks(root):
    picture(root / "images" / "test" / "a.png")
    (root / "masks" / "test").mkdir(parents=True)
    Image.fromarray(np.full((8, 8), 2, np.uint8)).save(root / "masks" / "test" / "a.png")


def scenes(root):
    home = root / "test" / "hall"
    home.mkdir(parents=True)
    np.save(home / "coord.npy", np.zeros((3, 3), np.float32))
    np.save(home / "segment.npy", np.array([0, 1, 2]))


SETS = dict(
    ImageFolder=partial(per_class, "test/{}/a.png"),
    EventFolder=partial(per_class, "test/{}/a.npz"),
    VideoFolder=partial(per_class, "test/{}/a.mp4"),
    PascalVOC=voc,
    Coco=coco,
    YoloFolder=yolo,
    MaskFolder=masks,
    Scenes=scenes,
    ModelNet=partial(per_class, "{0}/test/{0}_0001.off"),
    ImageNet=partial(per_class, "val/{}/a.png"),
)


def opened(kind, root, known=KNOWN, split="test"):
    return create(dict(type=kind, data_root=str(root), split=split), 0, known)


@pytest.mark.parametrize("kind", SETS)
def test_classes_are_those_of_the_checkpoint_in_its_order(kind, tmp_path):
    SETS[kind](tmp_path)
    data = opened(kind, tmp_path)
    assert list(data.classes) == KNOWN
    if data.answer == "Label":
        assert sorted(data.labels.tolist()) == [1, 2]
    if data.answer == "Boxes":
        assert sorted(label for scene in data.records for label in scene.labels.tolist()) == [1, 2]
    if kind not in ("MaskFolder", "Scenes"):
        assert data.absent() == ["bird"]


@pytest.mark.parametrize("kind", SETS)
def test_without_a_checkpoint_the_missing_files_are_named(kind, tmp_path):
    SETS[kind](tmp_path)
    if kind == "Coco":  # has names in its files
        assert opened(kind, tmp_path, ()).classes == ["dog", "cat"]
        return
    with pytest.raises(DataError, match=r"is missing|has no"):
        opened(kind, tmp_path, ())


@pytest.mark.parametrize("kind", ["ImageFolder", "PascalVOC", "Coco", "ModelNet"])
def test_a_class_that_the_checkpoint_does_not_have_raises_an_error(kind, tmp_path):
    SETS[kind](tmp_path)
    with pytest.raises(DataError, match=r"(is|which is) no class.*did you mean 'dogs'"):
        opened(kind, tmp_path, ["cat", "dogs"])


def test_labels_of_coco_follow_the_names_and_its_ids_stay(tmp_path):
    coco(tmp_path)
    data = opened("Coco", tmp_path)
    assert data.records[0].labels.tolist() == [2, 1]
    assert data.categories == ["bird", 7, 4]


def test_a_split_without_samples_is_refused(tmp_path):
    (tmp_path / "test" / "cat").mkdir(parents=True)
    with pytest.raises(DataError, match="holds no image"):
        opened("ImageFolder", tmp_path)


def test_an_existing_training_set_determines_the_classes(tmp_path):
    for split in ("train", "test"):
        per_class(f"{split}/{{}}/a.png", tmp_path)
    assert opened("ImageFolder", tmp_path).classes == ["cat", "dog"]
