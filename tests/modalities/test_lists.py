"""No list of a data set reaches outside of it, and nothing is kept elsewhere."""

import json
import os
import sys

import numpy as np
import pytest
from PIL import Image

from ndformer.framework.errors import DataError
from ndformer.framework.registry import DATASETS
from tools import prepare_scannet

NAMES = ["../{0}/x", "{1}/{0}/x", "a/../../{0}/x", "../data_/x"]
opened: list[str] = []


def _heard(event, given):
    if event in ("open", "os.mkdir", "os.rename", "os.listdir", "os.scandir") and isinstance(
        given[0], (str, os.PathLike)
    ):
        opened.append(os.path.abspath(given[0]))


sys.addaudithook(_heard)  # which stays: it costs little


def write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))


def picture(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (8, 8)).save(path)


def coco(root, name):
    (root / "train2017").mkdir()
    content = dict(
        images=[dict(id=1, file_name=name + ".png", width=8, height=8)],
        categories=[dict(id=1, name="cow")],
        annotations=[dict(id=1, image_id=1, category_id=1, bbox=[0, 0, 4, 4])],
    )
    write(root / "annotations" / "instances_train2017.json", content)
    return dict(type="Coco")


def voc(root, name):
    write(root / "ImageSets" / "Main" / "train.txt", f"{name}\n")
    (root / "Annotations").mkdir()
    (root / "JPEGImages").mkdir()
    return dict(type="PascalVOC")


def imagenet_files(root, name):
    picture(root / "train" / "n01" / "a.png")
    (root / "val").mkdir()
    write(root / "imagenet_class_index.json", {"0": ["n01", "cow"]})
    write(root / "ILSVRC2012_val_labels.json", {name: "n01"})
    return dict(type="ImageNet", split="test")


def imagenet_classes(root, name):
    (root / "train").mkdir()
    (root / "val").mkdir()
    write(root / "LOC_synset_mapping.txt", f"{name} cow\n")
    return dict(type="ImageNet")


def tiny_files(root, name):
    picture(root / "train" / "n01" / "images" / "a.png")
    write(root / "wnids.txt", "n01\n")
    write(root / "val" / "val_annotations.txt", f"{name}\tn01\t0\t0\t1\t1\n")
    return dict(type="TinyImageNet", split="test")


def tiny_classes(root, name):
    (root / "train").mkdir()
    write(root / "wnids.txt", f"{name}\n")
    write(root / "val" / "val_annotations.txt", "")
    return dict(type="TinyImageNet")


def modelnet_names(root, name):
    write(root / "modelnet40_shape_names.txt", f"{name}\n")
    write(root / "modelnet40_train.txt", f"{name}_0001\n")
    return dict(type="ModelNet40")


def paired(root, name):
    write(root / "classes.txt", f"{name.partition('/')[0]}\n")
    write(root / "train.txt", f"{name}\n")
    write(root / "views.csv", f"name,azimuth,elevation\n{name},1,1\n")
    return dict(type="Paired")


def scenes(root, name):
    write(root / "train.json", [name])
    write(root / "classes.txt", "wall\n")
    return dict(type="Scenes")


def gesture(root, name):
    write(root / "trials_to_train.txt", f"{name}\n")
    return dict(type="DvsGesture")


def ucf101(root, name):
    write(root / "ucfTrainTestlist" / "classInd.txt", f"1 {name}\n")
    write(root / "ucfTrainTestlist" / "trainlist01.txt", f"{name}/v_x_g01_c01.avi 1\n")
    return dict(type="UCF101")


READERS = [
    coco, voc, imagenet_files, imagenet_classes, tiny_files, tiny_classes, modelnet_names, paired, scenes, gesture,
    ucf101,
]  # fmt: skip


def first(config):
    return DATASETS.create(config)[0]


@pytest.mark.parametrize("made", READERS, ids=lambda made: made.__name__)
@pytest.mark.parametrize("name", NAMES)
def test_a_list_that_leads_outside_is_a_sentence_and_nothing_there_is_touched(tmp_path, made, name):
    root, other = tmp_path / "data", tmp_path / "other"
    root.mkdir()
    other.mkdir()
    name = name.format("other", tmp_path)
    picture(other / "x.png")
    write(other / "x.xml", "<annotation/>")
    write(other / "x.txt", "0,0,0\n")
    write(other / "x" / "x" / "images.txt", "")
    config = made(root, name)
    opened.clear()
    with pytest.raises(DataError, match=r"leads outside of it|has the line|names .*, which .*not know|which is not in"):
        first(config | dict(data_root=root, holdout=0))
    assert not [path for path in opened if path.startswith((str(other), str(tmp_path / "data_")))]


def test_files_inside_the_set_are_read_by_any_name(tmp_path):
    for name in ("a", "./a", "b/../a"):
        root = tmp_path / name.replace("/", "_")
        root.mkdir()
        config = coco(root, name)
        picture(root / "train2017" / "a.png")
        assert DATASETS.create(config | dict(data_root=root, holdout=0))[0]["path"].endswith("train2017/a.png")


def test_a_relative_root_is_no_way_out(tmp_path, monkeypatch):
    (tmp_path / "data").mkdir()
    monkeypatch.chdir(tmp_path / "data")
    scenes(tmp_path / "data", "../other")
    with pytest.raises(DataError, match="leads outside"):
        DATASETS.create(dict(type="Scenes", data_root=".", holdout=0))


def test_prepared_scenes_are_written_below_their_folder(tmp_path):
    write(tmp_path / "scannetv2_train.txt", "../../x\n")
    write(tmp_path / "scannetv2-labels.combined.tsv", "raw_category\tnyu40id\nwall\t1\n")
    with pytest.raises(DataError, match="leads outside"):
        prepare_scannet.main([str(tmp_path), "--out", str(tmp_path / "a" / "b")])
    assert not (tmp_path / "x").exists()


def test_clouds_are_not_kept_through_a_link(tmp_path):
    root, other = tmp_path / "data", tmp_path / "other"
    other.mkdir()
    write(root / "modelnet40_shape_names.txt", "box\n")
    write(root / "modelnet40_train.txt", "box_0001\n")
    rows = np.random.default_rng(0).normal(size=(20, 6)).round(3)
    write(root / "box" / "box_0001.txt", "\n".join(",".join(map(str, row)) for row in rows.tolist()))
    (root / ".ndformer_cache").symlink_to(other)
    with pytest.warns(UserWarning, match="leads elsewhere"):
        DATASETS.create(dict(type="ModelNet40", data_root=root, holdout=0))[0]
    assert not list(other.iterdir())
