"""The generated stand-ins: read by the very loaders, the same every time, and not to be told by simple statistics."""

import hashlib

import numpy as np
import pytest
import torch
from PIL import Image

from ndformer.framework.data.dataset import Dataset
from ndformer.framework.evaluation import simple
from ndformer.framework.registry import DATASETS, STAND_INS
from ndformer.modalities.image.stand_ins import baselines
from ndformer.modalities.image.stand_ins.strokes import DIGITS, FIGURES, figures, handwriting

# name: dataset, sizes of train, val and test, how many of its classes appear, mode
STANDINS = {
    "cifar10": ("CIFAR10", (5400, 600, 1000), 10, "RGB"),
    "cifar100": ("CIFAR100", (2700, 300, 500), 100, "RGB"),
    "mnist": ("MNIST", (1800, 200, 500), 10, "L"),
    "imagenet1k": ("ImageNet", (390, 10, 100), 10, "RGB"),
    "imagefolder": ("ImageFolder", (600, 100, 100), 10, "RGB"),
}
SPLITS = ("train", "val", "test")


@pytest.mark.slow
@pytest.mark.parametrize("name", STANDINS)
def test_the_loader_of_the_real_set_reads_its_stand_in(name, sample_root):
    kind, sizes, classes, mode = STANDINS[name]
    sets = [DATASETS.create(dict(type=kind, data_root=sample_root(name), split=split)) for split in SPLITS]
    assert tuple(len(s) for s in sets) == sizes
    for dataset in sets:
        assert len(set(dataset.labels.tolist())) == classes
        for i in np.linspace(0, len(dataset) - 1, 20).astype(int):
            sample = dataset[int(i)]
            assert sample["image"].mode == mode
            assert sample["label"] == dataset.labels[i] < len(dataset.classes)
            assert sample["path"].startswith(str(sample_root(name)))
    paths = [dataset.read(record)["path"] for dataset in sets[:2] for record in dataset.records]
    assert len(set(paths)) == len(paths)  # train and val share nothing


def digest(folder):
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", STANDINS)
def test_a_seed_always_gives_the_same_files(name, sample_root, tmp_path):
    STAND_INS.get(name)().write(tmp_path, 0)
    assert digest(tmp_path) == digest(sample_root(name))


@pytest.mark.slow
def test_another_seed_gives_other_images_of_the_same_kind(sample_root, tmp_path):
    STAND_INS.get("imagefolder")().write(tmp_path, 1)
    ours, others = digest(tmp_path), digest(sample_root("imagefolder"))
    assert not set(ours.values()) & set(others.values())


def test_the_same_class_is_drawn_differently_and_classes_differ():
    """Where nothing is random but the figure, images of a class are one image; else no two are."""
    rng = np.random.default_rng(0)
    drawn = figures(np.repeat(np.arange(12), 4), list(FIGURES.values()), 32, rng)
    assert drawn.shape == (48, 32, 32, 3)
    assert len({image.tobytes() for image in drawn}) == 48


def test_digits_stand_in_the_middle_on_black():
    drawn = handwriting(np.arange(10).repeat(20), 28, np.random.default_rng(0))
    assert (drawn.max((1, 2)) > 200).all()
    assert not drawn[:, [0, -1]].any()
    assert not drawn[:, :, [0, -1]].any()
    assert len(DIGITS) == 10


# --- the baselines, and what they say of the sample ---


def test_logistic_regression_finds_the_minimum_that_torch_finds():
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((300, 6)).astype(np.float32), rng.integers(0, 3, 300)
    x[:, 0] += y
    x_test = rng.standard_normal((500, 6)).astype(np.float32)
    scaled = lambda a: torch.from_numpy(np.column_stack([(a - x.mean(0)) / x.std(0), np.ones(len(a))])).double()
    weights = torch.zeros(7, 3, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS([weights], max_iter=200, tolerance_grad=1e-10, line_search_fn="strong_wolfe")

    def loss():
        optimizer.zero_grad()
        value = torch.nn.functional.cross_entropy(scaled(x) @ weights, torch.from_numpy(y))
        value = value + 0.01 / 2 * weights.square().sum()
        value.backward()
        return value

    optimizer.step(loss)
    expected = (scaled(x_test) @ weights).argmax(1).numpy()
    assert (simple.logistic_regression(x, y, x_test, penalty=0.01) == expected).mean() > 0.99


class Images(Dataset):
    """A dataset of arrays."""

    classes = ["one", "other"]

    def __init__(self, images, labels):
        self.given = list(images), labels
        super().__init__(".", "test")

    def index(self, split):
        return self.given

    def read(self, record):
        return dict(image=Image.fromarray(record))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["color statistics", "coarse layout", "raw pixels"])
def test_each_baseline_solves_the_set_made_for_it(kind, monkeypatch):
    """Sets that one of them should solve: by brightness, by the place of a blob, by one faint fixed pattern."""
    rng = np.random.default_rng(0)

    def make(n):
        labels = rng.permutation(np.arange(n) % 4)
        images = rng.integers(60, 190, (n, 32, 32, 3))
        if kind == "color statistics":
            images += (12 * labels)[:, None, None, None]
        elif kind == "coarse layout":
            for image, label in zip(images, labels):
                image[8 * label : 8 * label + 8, 8:16] += 20
        else:
            images += (np.random.default_rng(9).choice([-9, 9], (4, 32, 32, 3)))[labels]
        return Images(images.astype(np.uint8), labels)

    monkeypatch.setattr(baselines, "FEATURES", {kind: baselines.FEATURES[kind]})
    found = dict(baselines.baselines(make(600), make(200)))
    assert found[kind] > 0.9
    assert found["most frequent class"] == 0.25


@pytest.mark.slow
def test_pixel_statistics_do_not_distinguish_the_figures_of_cifar10(sample_root, monkeypatch):
    monkeypatch.setattr(simple, "PENALTIES", (0.1,))
    root = sample_root("cifar10")
    train, test = (DATASETS.create(dict(type="CIFAR10", data_root=root, split=split)) for split in ("train", "test"))
    found = dict(baselines.baselines(train, test))
    assert set(found) == {"color statistics", "coarse layout", "raw pixels", "most frequent class"}
    assert max(found.values()) < 0.6
    assert found["most frequent class"] == 0.1
