"""ImageNet-V2 and ImageNet-R: labels are the model's own, and a model is asked among the classes that there are."""

import json
import re

import pytest
import torch

from ndformer.framework.answers.label import Label
from ndformer.framework.data.dataset import create
from ndformer.framework.errors import DataError
from ndformer.framework.evaluation.accuracy import Accuracy
from ndformer.framework.heads.classifier import Classifier
from ndformer.framework.tokens import TokenSet, Where
from ndformer.modalities.image.datasets.imagenet import INDEX, read_classes
from tests.modalities.image.test_folders import check, put

SYNSETS = [f"n0000000{i}" for i in range(5)]
V2, R = "imagenetv2-matched-frequency-format-val", "imagenet-r"


def opened(kind, root, known=(), split="test", **options):
    return create(dict(type=kind, data_root=str(root), split=split, **options), 0, known)


def v2(home, folders=(0, 2, 4)):
    for label in folders:
        for name in ("a", "b"):
            put(home / str(label) / f"{name}.jpeg", int(label))
    return home


def renditions(home, labels=(3, 1)):
    for label in labels:
        put(home / SYNSETS[label] / "art_0.jpg", label)
    (home / "README.txt").write_text("two hundred classes\n")
    return home


def mapping(root):
    root.mkdir(exist_ok=True)
    (root / "LOC_synset_mapping.txt").write_text("".join(f"{s} name {i}, other\n" for i, s in enumerate(SYNSETS)))
    return root


def train_folders(root):
    for synset in SYNSETS:
        (root / "ILSVRC/Data/CLS-LOC/train" / synset).mkdir(parents=True)
    return root


@pytest.mark.parametrize("inner", [".", V2])
def test_folders_of_v2_are_labels_and_the_checkpoint_names_them(inner, tmp_path):
    v2(tmp_path / inner)
    data = opened("ImageNetV2", tmp_path, known=list("abcde"))
    assert (check(data), data.classes) == ([0, 0, 2, 2, 4, 4], list("abcde"))
    plain = opened("ImageNetV2", tmp_path)
    assert (check(plain), len(plain.classes)) == ([0, 0, 2, 2, 4, 4], 1000)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["5", "05", "-1", "٣", "n00000001", "1 "])
def test_folders_of_v2_that_are_no_labels_are_one_sentence(name, tmp_path):
    v2(tmp_path)
    (tmp_path / name).mkdir()
    with pytest.raises(
        DataError, match=re.escape(f"{tmp_path / name} is no class: folders of ImageNet-V2 are numbers, 0")
    ):
        opened("ImageNetV2", tmp_path, known=list("abcde"))


def test_several_versions_in_a_folder_are_an_error(tmp_path):
    v2(tmp_path / V2)
    v2(tmp_path / "imagenetv2-top-images-format-val")
    with pytest.raises(DataError, match="has imagenetv2-matched-.*, imagenetv2-top-.*: give one of them as data_root"):
        opened("ImageNetV2", tmp_path)


@pytest.mark.parametrize("inner", [".", R])
@pytest.mark.parametrize("write", [mapping, train_folders])
def test_synsets_of_r_have_the_labels_of_imagenet(inner, write, tmp_path):
    renditions(tmp_path / "r" / inner)
    data = opened("ImageNetR", tmp_path / "r", imagenet=str(write(tmp_path / "1k")))
    assert check(data) == [1, 3]
    assert data[0]["among"] == [1, 3]
    assert data.classes == ([f"name {i}" for i in range(5)] if write is mapping else SYNSETS)


def test_the_list_may_lie_with_r_and_a_checkpoint_may_know_synsets(tmp_path):
    renditions(tmp_path / R)
    assert check(opened("ImageNetR", tmp_path, known=SYNSETS)) == [1, 3]
    mapping(tmp_path)
    assert check(opened("ImageNetR", tmp_path, known=list("abcde"))) == [1, 3]


def test_r_without_an_order_of_classes_or_with_strange_ones_is_one_sentence(tmp_path):
    renditions(tmp_path / R)
    with pytest.raises(
        DataError, match=r"to ImageNet-1K's classes: put LOC_synset_mapping\.txt there, or give dataset\.imagenet"
    ):
        opened("ImageNetR", tmp_path, known=["fish", "bird"])
    with pytest.raises(DataError, match="1k/train is missing: put ImageNet-1K's train images"):
        opened("ImageNetR", tmp_path, imagenet=str(tmp_path / "1k"))
    (tmp_path / R / "n00000009").mkdir()
    with pytest.raises(DataError, match="n00000009 is no class of ImageNet-1K, did you mean 'n0000000[0-4]'"):
        opened("ImageNetR", tmp_path, known=SYNSETS)


@pytest.mark.parametrize("kind, write", [("ImageNetV2", v2), ("ImageNetR", renditions)])
@pytest.mark.parametrize("split", ["train", "val"])
def test_neither_is_trained_on(kind, write, split, tmp_path):
    write(tmp_path)
    with pytest.raises(DataError, match=f"{kind} is a test set and has no .* images: train on ImageNet"):
        opened(kind, tmp_path, known=SYNSETS, split=split)


@pytest.mark.parametrize("kind", ["ImageNetV2", "ImageNetR"])
def test_the_error_for_an_empty_folder_names_the_source(kind, tmp_path):
    with pytest.raises(DataError, match="is missing: put a folder of images per class there .github"):
        opened(kind, tmp_path)


def test_the_model_chooses_among_the_classes_of_the_sample():
    torch.manual_seed(0)
    head = Classifier(8, 5)
    torch.nn.init.normal_(head.linear.weight)
    tokens = TokenSet(torch.randn(2, 1, 8), Where(torch.zeros(2, 1, 2)))
    free = head(tokens).detach()
    best = int(free[0].argmax())
    among = [i for i in range(5) if i != best]
    with torch.no_grad():
        asked, other = head.predict(tokens, [dict(label=among[0], among=among), dict(label=0)])
    assert isinstance(asked, Label)
    assert isinstance(other, Label)
    torch.testing.assert_close(asked.scores[among], free[0, among].softmax(-1))
    assert asked.scores[best] == 0
    torch.testing.assert_close(other.scores, free[1].softmax(-1))
    metric = Accuracy()
    metric.process(None, [asked])
    right = float(free[0, among].argmax() == 0)
    assert metric.compute_metrics(metric.results)["accuracy"] == right


def test_classes_of_an_index_are_in_the_order_of_their_numbers(tmp_path):
    (tmp_path / INDEX).write_text(json.dumps({str(i): [f"n{i:08}", f"thing {i}"] for i in range(12)}, sort_keys=True))
    synsets, names = read_classes(tmp_path, tmp_path / "train", ())
    assert synsets == [f"n{i:08}" for i in range(12)]
    assert names == [f"thing {i}" for i in range(12)]
