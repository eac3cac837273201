"""Datasets of image files: each is written by hand here, an image's gray being its label, and read back."""

import csv
import json

import numpy as np
import pytest
from PIL import Image
from scipy.io import savemat

from ndformer.framework.errors import DataError
from ndformer.framework.registry import DATASETS
from ndformer.modalities.image.formats.matlab import read_mat


def put(path, label=0, mode="RGB", size=(8, 6)):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("L", size, 20 * label + 10).convert(mode).save(path, "TIFF" if mode == "CMYK" else None)


def build(kind, root, split="train", **options):
    return DATASETS.create(dict(type=kind, data_root=root, split=split, **options))


def check(dataset):
    """Every image is the one that its label says."""
    assert len(dataset)
    for i in range(len(dataset)):
        sample = dataset[i]
        assert sample["image"].mode == "RGB"
        assert sample["label"] == dataset.labels[i] == round((np.asarray(sample["image"]).mean() - 10) / 20)
    return dataset.labels.tolist()


# --- any class folders ---


@pytest.fixture
def folder(tmp_path):
    for split, count in (("train", 10), ("val", 2), ("test", 1)):
        for label, name in enumerate(("ant", "bee", "cat")):
            for i in range(count):
                put(tmp_path / split / name / f"{i}.png", label)
    return tmp_path


def test_class_folders_are_classes_in_alphabetical_order(folder):
    for split, count in (("train", 10), ("val", 2), ("test", 1)):
        dataset = build("ImageFolder", folder, split)
        assert dataset.classes == ["ant", "bee", "cat"]
        assert check(dataset) == [0] * count + [1] * count + [2] * count


def test_without_val_a_share_of_train_is_held_out(folder):
    for path in (folder / "val").rglob("*.png"):
        path.unlink()
    for path in [*(folder / "val").iterdir(), folder / "val"]:
        path.rmdir()
    train, val = build("ImageFolder", folder, holdout=0.2), build("ImageFolder", folder, "val", holdout=0.2)
    assert (check(train), check(val)) == ([0] * 8 + [1] * 8 + [2] * 8, [0, 0, 1, 1, 2, 2])
    assert {p for p, _ in train.records}.isdisjoint(p for p, _ in val.records)


def test_without_test_val_is_it_and_never_validates(folder):
    (folder / "test").rename(folder / "aside")
    test, val = build("ImageFolder", folder, "test"), build("ImageFolder", folder, "val")
    assert {p.parts[-3] for p, _ in test.records} == {"val"}
    assert {p.parts[-3] for p, _ in val.records} == {"train"}
    assert len(val) == 3


def test_images_of_every_kind_become_rgb(tmp_path):
    for i, mode in enumerate(("L", "RGB", "RGBA", "P", "CMYK", "1", "LA")):
        put(tmp_path / "train" / "a" / f"{i}{'.tif' if mode == 'CMYK' else '.PNG'}", 3, mode)
    put(tmp_path / "train" / "b" / "deep" / "er" / "x.JPEG")
    dataset = build("ImageFolder", tmp_path, holdout=0.0)
    assert all(dataset.read(record)["image"].mode == "RGB" for record in dataset.records)
    assert [record[1] for record in dataset.records].count(0) == 7  # none is held out


def test_gray_is_a_choice(folder):
    assert build("ImageFolder", folder, mode="L")[0]["image"].mode == "L"


def test_files_that_are_no_images_are_skipped_with_a_warning(folder):
    for name in ("train/ant/notes.txt", "train/ant/.hidden.png", "train/.cache/x.png", "train/readme.png"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(b"x")
    with pytest.warns(
        UserWarning, match=r"train: files that are no image .* skipped: 1 \.txt\. Endings that are read: \.jpg"
    ):
        assert len(check(build("ImageFolder", folder))) == 30


@pytest.mark.filterwarnings("error")
def test_clutter_of_systems_and_hidden_folders_are_passed_over_in_silence(folder):
    for name in (".DS_Store", "Thumbs.db", "desktop.ini", ".ipynb_checkpoints/0-checkpoint.png"):
        (folder / "train" / "ant" / name).parent.mkdir(exist_ok=True)
        (folder / "train" / "ant" / name).write_bytes(b"x")
    assert len(check(build("ImageFolder", folder))) == 30


def test_the_error_for_a_class_folder_lists_its_other_files(folder):
    for i in range(3):
        (folder / "train" / "dog").mkdir(exist_ok=True)
        (folder / "train" / "dog" / f"{i}.cr2").write_bytes(b"x")
    with pytest.raises(DataError, match=r"train/dog holds no image .* but 3 \.cr2: "):
        build("ImageFolder", folder)


def test_an_empty_class_folder_is_named(folder):
    (folder / "train" / "dog").mkdir()
    with pytest.raises(DataError, match=r"train/dog holds no image"):
        build("ImageFolder", folder)


def test_a_class_that_train_does_not_have_is_named(folder):
    put(folder / "val" / "dog" / "0.png")
    with pytest.raises(DataError, match=r"val/dog is no class of .*train"):
        build("ImageFolder", folder, "val")


def test_missing_parts_say_what_where_and_sample(tmp_path):
    with pytest.raises(DataError, match=r"/none/train is missing: put a folder per class"):
        build("ImageFolder", tmp_path / "none")
    (tmp_path / "train").mkdir()
    with pytest.raises(DataError, match="holds no class folder"):
        build("ImageFolder", tmp_path)
    put(tmp_path / "train" / "a" / "0.png")
    with pytest.raises(DataError, match=r"/test is missing"):
        build("ImageFolder", tmp_path, "test")


@pytest.mark.parametrize("keep", [0, 30, 300])
def test_a_broken_image_is_named_when_it_is_read(keep, folder):
    path = folder / "train" / "bee" / "5.jpg"
    Image.effect_noise((64, 64), 50).save(path)
    path.write_bytes(path.read_bytes()[:keep])
    dataset = build("ImageFolder", folder)  # finding files reads none
    number = next(i for i, (p, _) in enumerate(dataset.records) if p == path)
    with pytest.raises(DataError, match=f"^{path} cannot be read as an image"):
        dataset[number]


def test_an_image_that_went_away_is_named(folder):
    dataset = build("ImageFolder", folder)
    dataset.records[0][0].unlink()
    with pytest.raises(DataError, match=f"^{dataset.records[0][0]} is missing"):
        dataset[0]


# --- ImageNet ---

SYNSETS = ["n03", "n01", "n02"]  # not in alphabetical order: labels follow the lists
ANSWERS = {f"ILSVRC2012_val_{i:08d}": SYNSETS[i % 3] for i in (4, 2, 3, 1)}


def write_imagenet(root, images, label_of, flat=True):
    for synset in SYNSETS:
        for i in range(20):
            put(images / "train" / synset / f"{synset}_{i}.JPEG", label_of(synset))
    for name, synset in ANSWERS.items():
        put(images / "val" / ("" if flat else synset) / f"{name}.JPEG", label_of(synset))
    root.mkdir(exist_ok=True)
    return root


def kaggle(root):
    (root / "LOC_synset_mapping.txt").write_text("n03 third, one more name\nn01 first\nn02 second one\n")
    with (root / "LOC_val_solution.csv").open("w", newline="") as file:
        rows = [(name, f"{synset} 1 2 3 4 {synset} 5 6 7 8 ") for name, synset in ANSWERS.items()]
        csv.writer(file).writerows([("ImageId", "PredictionString"), *rows])


def official_code(root):
    names = {"2": ["n02", "second_one"], "0": ["n03", "third"], "1": ["n01", "first"]}
    (root / "imagenet_class_index.json").write_text(json.dumps(names))
    labels = {f"{name}.JPEG": synset for name, synset in ANSWERS.items()}
    (root / "ILSVRC2012_val_labels.json").write_text(json.dumps(labels))


@pytest.mark.parametrize("inner", ["ILSVRC/Data/CLS-LOC", "Data/CLS-LOC", "."])
@pytest.mark.parametrize("lists", [kaggle, official_code])
def test_imagenet_is_read_with_either_kind_of_lists(lists, inner, tmp_path):
    lists(write_imagenet(tmp_path, tmp_path / inner, SYNSETS.index))
    train, val, test = (build("ImageNet", tmp_path, split) for split in ("train", "val", "test"))
    assert train.classes == ["third", "first", "second one"]
    assert check(train) == [0] * 19 + [1] * 19 + [2] * 19
    assert check(val) == [0, 1, 2]  # 1 % of 20, and at least one
    assert check(test) == [1, 2, 0, 1]  # by file name: 1, 2, 3, 4


@pytest.mark.parametrize("flat", [True, False])
def test_imagenet_in_plain_folders_goes_by_the_names_of_folders(flat, tmp_path):
    write_imagenet(tmp_path, tmp_path, sorted(SYNSETS).index, flat)
    assert check(build("ImageNet", tmp_path)) == [0] * 19 + [1] * 19 + [2] * 19
    if flat:
        with pytest.raises(DataError, match=r"LOC_val_solution\.csv is missing.*ILSVRC2012_val_labels.*kaggle"):
            build("ImageNet", tmp_path, "test")
    else:
        assert check(build("ImageNet", tmp_path, "test")) == [0, 0, 1, 2]


def test_imagenet_holds_out_one_percent(tmp_path):
    write_imagenet(tmp_path, tmp_path, sorted(SYNSETS).index)
    for i in range(20, 300):
        (tmp_path / "train" / "n01" / f"{i}.JPEG").touch()
    assert np.bincount(build("ImageNet", tmp_path, "val").labels).tolist() == [3, 1, 1]


def test_an_unknown_synset_is_named(tmp_path):
    official_code(write_imagenet(tmp_path, tmp_path, SYNSETS.index))
    (tmp_path / "ILSVRC2012_val_labels.json").write_text(json.dumps({"a.JPEG": "n99"}))
    with pytest.raises(DataError, match=r"label of a\.JPEG is n99, which is no class"):
        build("ImageNet", tmp_path, "test")


@pytest.mark.parametrize("part", ["train", "val"])
def test_missing_images_of_imagenet_say_what_where_how_and_sample(part, tmp_path):
    root = write_imagenet(tmp_path, tmp_path, SYNSETS.index)
    kaggle(root)
    (root / part).rename(root / "aside")
    with pytest.raises(DataError, match=rf"{part} is missing: put ImageNet-1K's {part} images.*kaggle\.com"):
        build("ImageNet", root, dict(train="train", val="test")[part])


# --- Tiny-ImageNet ---


@pytest.fixture
def tiny(tmp_path):
    root = tmp_path / "tiny-imagenet-200"
    for label, synset in enumerate(SYNSETS):
        for i in range(10):
            put(root / "train" / synset / "images" / f"{synset}_{i}.JPEG", label)
    (root / "wnids.txt").write_text("\n".join(SYNSETS))
    (root / "words.txt").write_text("n01\tfirst, more\nn02\tsecond one\nn99\tunused\n")
    for i in range(4):
        put(root / "val" / "images" / f"val_{i}.JPEG", i % 3)
    lines = [f"val_{i}.JPEG\t{SYNSETS[i % 3]}\t0\t0\t63\t63\n" for i in range(4)]
    (root / "val" / "val_annotations.txt").write_text("".join(lines))
    return tmp_path


def test_tiny_imagenet_tests_on_val_and_validates_on_train(tiny):
    train, val, test = (build("TinyImageNet", tiny, split) for split in ("train", "val", "test"))
    assert train.classes == ["n03", "first", "second one"]
    assert (check(train), check(val)) == ([0] * 9 + [1] * 9 + [2] * 9, [0, 1, 2])
    assert check(test) == [0, 1, 2, 0]


def test_tiny_imagenets_own_folder_may_be_the_root(tiny):
    assert len(build("TinyImageNet", tiny / "tiny-imagenet-200")) == 27


def test_an_annotation_of_an_unknown_class_is_named(tiny):
    with (tiny / "tiny-imagenet-200" / "val" / "val_annotations.txt").open("a") as file:
        file.write("val_9.JPEG\tn77\t0\t0\t1\t1\n")
    with pytest.raises(DataError, match=r"val_9\.JPEG the class n77, which wnids\.txt does not list"):
        build("TinyImageNet", tiny, "test")


@pytest.mark.parametrize("name", ["wnids.txt", "val/val_annotations.txt"])
def test_missing_parts_of_tiny_imagenet_say_how_to_get_them(name, tiny):
    (tiny / "tiny-imagenet-200" / name).unlink()
    with pytest.raises(DataError, match=rf"{name} is missing: .*tiny-imagenet-200\.zip"):
        build("TinyImageNet", tiny)


# --- Flowers ---


def write_flowers(root, labels=(3, 1, 2, 1, 3, 102), train=(5, 1), val=(2,), test=(6, 3, 4)):
    for i, label in enumerate(labels, start=1):
        put(root / "jpg" / f"image_{i:05d}.jpg", min(label - 1, 12))
    savemat(root / "imagelabels.mat", dict(labels=np.array([labels])))
    savemat(root / "setid.mat", dict(trnid=np.array([train]), valid=np.array([val]), tstid=np.array([test])))
    return root


def test_flowers_follow_the_official_split(tmp_path):
    write_flowers(tmp_path)
    sets = {split: build("Flowers102", tmp_path, split) for split in ("train", "val", "test")}
    assert {split: [p.stem[-1] for p, _ in s.records] for split, s in sets.items()} == dict(
        train=["5", "1"], val=["2"], test=["6", "3", "4"]
    )
    assert {split: s.labels.tolist() for split, s in sets.items()} == dict(train=[2, 2], val=[0], test=[101, 1, 0])
    check(sets["train"])
    check(sets["val"])
    classes = sets["train"].classes
    assert (len(classes), len(set(classes)), classes[0], classes[101]) == (102, 102, "pink primrose", "blackberry lily")
    assert (classes[53], classes[73]) == ("sunflower", "rose")


@pytest.mark.parametrize("label", [0, 103])
def test_a_label_of_no_flower_is_named(label, tmp_path):
    write_flowers(tmp_path, labels=(1, 2, 3, 4, 5, label))
    with pytest.raises(DataError, match=rf"imagelabels\.mat has the label {label - 1}, but there are 102 classes"):
        build("Flowers102", tmp_path)


@pytest.mark.parametrize("number", [0, 7])
def test_an_image_that_has_no_label_is_named(number, tmp_path):
    write_flowers(tmp_path, val=(2, number))
    with pytest.raises(DataError, match=rf"setid\.mat lists image {number}, but imagelabels\.mat has 6 labels"):
        build("Flowers102", tmp_path, "val")


@pytest.mark.parametrize("name", ["imagelabels.mat", "setid.mat"])
def test_missing_parts_of_flowers_say_how_to_get_them(name, tmp_path):
    (write_flowers(tmp_path) / name).unlink()
    with pytest.raises(DataError, match=rf"{name} is missing: .*robots\.ox\.ac\.uk"):
        build("Flowers102", tmp_path)


def test_the_error_for_a_mat_file_lists_its_arrays(tmp_path):
    savemat(write_flowers(tmp_path) / "setid.mat", dict(ids=np.ones((1, 2))))
    with pytest.raises(DataError, match="must have an array 'trnid', got ids"):
        build("Flowers102", tmp_path)


@pytest.fixture
def mat(tmp_path):
    arrays = dict(labels=np.array([[1, 2, 102, 2]], np.uint8), tstid=np.array([[1.0, 300, 8189]]))
    arrays |= dict(ab=np.arange(6, dtype=np.int32).reshape(2, 3), text="words", struct=dict(a=1))
    savemat(tmp_path / "x.mat", arrays, do_compression=True)
    return tmp_path / "x.mat"


def test_numeric_arrays_of_mat_files_are_read(mat):
    found = read_mat(mat)
    assert set(found) == {"labels", "tstid", "ab"}
    np.testing.assert_array_equal(found["labels"], [[1, 2, 102, 2]])
    np.testing.assert_array_equal(found["tstid"], [[1, 300, 8189]])
    np.testing.assert_array_equal(found["ab"], [[0, 1, 2], [3, 4, 5]])


@pytest.mark.parametrize("size", [0, 100, 130, 200, 300])
def test_a_damaged_mat_file_is_named(size, mat):
    mat.write_bytes(mat.read_bytes()[:size])
    with pytest.raises(DataError, match=r"x\.mat cannot be read as a \.mat file"):
        read_mat(mat)
