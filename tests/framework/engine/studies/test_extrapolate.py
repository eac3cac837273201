"""The same weights at other sizes: test images, positions and figures."""

import json

import numpy as np
import pytest
import torch
from mmengine.config import Config
from PIL import Image

from ndformer.framework.data.dataset import Dataset
from ndformer.framework.engine.building import build_model
from ndformer.framework.engine.run import build_loader, evaluate
from ndformer.framework.engine.studies import extrapolate
from ndformer.framework.engine.studies.interval import Summary
from ndformer.framework.engine.training import checkpoint
from ndformer.framework.errors import DataError
from ndformer.framework.registry import DATASETS

PACK = dict(type="PackImage")


@pytest.fixture(scope="module", autouse=True)
def stripes():
    """Grey images of 12 x 12 with a bright column, left, in the middle or right."""

    class Stripes(Dataset):
        classes = ["left", "middle", "right"]

        def index(self, split):
            labels = np.arange(30) % 3
            return list(range(30)), labels

        def read(self, record):
            image = np.random.default_rng(record).integers(0, 90, (12, 12), dtype=np.uint8)
            image[:, 4 * (record % 3) : 4 * (record % 3) + 4] += 150
            return dict(image=Image.fromarray(image), label=record % 3, path=str(record))

    DATASETS.get("CIFAR10")
    DATASETS.register_module(module=Stripes)
    yield
    DATASETS.module_dict.pop("Stripes")


def config(encoding="Sincos", test=(PACK,), train=(PACK,)):
    def loader(split, transforms):
        return dict(batch_size=8, dataset=dict(type="Stripes", data_root=".", split=split, transforms=list(transforms)))

    backbone = dict(type="Transformer", dim=16, depth=2, heads=2, position_dims=2, encoding=dict(type=encoding))
    return Config(
        dict(
            model=dict(
                type="TokenModel",
                modalities=dict(image=dict(type="ImagePatches", patch=4, channels=1)),
                backbone=backbone,
                head=dict(type="Classifier", classes=3),
            ),
            train_dataloader=loader("train", train),
            test_dataloader=loader("test", test),
            metrics=[dict(type="Accuracy")],
            seed=3,
        )
    )


@pytest.fixture
def weights(tmp_path):
    """A checkpoint that knows something: a few steps of training."""

    def weights(cfg):
        torch.manual_seed(0)
        model = build_model(cfg)
        optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
        batches = list(build_loader(cfg, "test"))
        for _ in range(5):
            for batch in batches:
                optimizer.zero_grad()
                model(**batch, mode="loss")["loss"].backward()
                optimizer.step()
        path = tmp_path / f"{cfg.model.backbone.encoding.type}.pth"
        checkpoint.save(path, dict(model=model.state_dict()))
        return path, model

    return weights


def test_at_the_size_of_training_it_is_evaluate(weights):
    cfg = config()
    path, model = weights(cfg)
    tested = extrapolate.extrapolate(cfg, path, [12, 16])
    expected = evaluate(cfg, model, build_loader(cfg, "test")).values
    assert [figure.test for figure in tested.figures[:2]] == [expected, expected]
    assert tested.figures[0].did == "as in the config"
    assert (tested.trained, tested.metric, tested.encoding, tested.seed) == ((12, 12), "accuracy", "Sincos", 3)


@pytest.mark.parametrize("encoding", ["Sincos", "PaPE"])
def test_other_sizes_are_the_model_on_resized_images_with_positions_scaled(weights, encoding):
    cfg = config(encoding)
    path, model = weights(cfg)
    tested = extrapolate.extrapolate(cfg, path, [24])
    at = config(encoding, [dict(type="Resize", size=(24, 24)), PACK])
    for figure, scale in zip(tested.figures, (1.0, 0.5)):
        model.backbone.encoding.scale_positions = scale
        assert figure.test == evaluate(at, model, build_loader(at, "test")).values
        assert figure.interpolated == (scale == 0.5)
        assert figure.did == "Resize to 24 x 24 put in front"


def test_interpolation_reaches_every_encoding_of_a_model():
    cfg = config()
    cfg.model.backbone.encoding = [dict(type="Sincos"), dict(type="PaPE")]
    model = build_model(cfg)
    extrapolate.interpolate(model, (12, 16), (24, 64))
    for part in model.backbone.encoding.parts:
        assert part.factors == (0.5, 0.25)


@pytest.mark.parametrize(
    "transforms, size, changed, did",
    [
        ([PACK], 24, [dict(type="Resize", size=(24, 24)), PACK], "Resize to 24 x 24 put in front"),
        (
            [dict(type="Resize", size=16), dict(type="CenterCrop", size=12), PACK],
            24,
            [dict(type="Resize", size=32), dict(type="CenterCrop", size=24), PACK],
            "Resize size 16 -> 32, CenterCrop size 12 -> 24",
        ),
        ([dict(type="EvalCrop", size=12), PACK], 20, [dict(type="EvalCrop", size=20), PACK], "EvalCrop size 12 -> 20"),
        (
            [dict(type="Resize", size=(12, 24)), PACK],
            16,
            [dict(type="Resize", size=(16, 32)), PACK],
            "Resize size (12, 24) -> (16, 32)",
        ),
    ],
)
def test_sizes_of_the_test_transforms_change_in_proportion(transforms, size, changed, did):
    cfg = config(test=transforms)
    own = extrapolate._shape(cfg, "test")
    at, says = extrapolate.resized(cfg, own, extrapolate._scaled(own, size))
    assert [dict(one) for one in at.test_dataloader.dataset.transforms] == changed
    assert says == did
    assert [dict(one) for one in cfg.test_dataloader.dataset.transforms] == transforms
    pixels = own[0] * own[1] * 8
    assert at.test_dataloader.batch_size * np.prod(extrapolate._scaled(own, size)) <= pixels


def test_a_default_size_counts_as_one():
    _, says = extrapolate.resized(config(test=[dict(type="EvalCrop"), PACK]), (224, 224), (112, 112))
    assert says == "EvalCrop size 224 -> 112"


def test_the_size_of_training_is_what_the_training_transforms_make(weights):
    cfg = config(train=[dict(type="RandomCrop", size=8), PACK])
    path, _ = weights(cfg)
    assert extrapolate.extrapolate(cfg, path, [12]).trained == (8, 8)


def test_sizes_that_patches_do_not_divide_are_one_sentence_with_the_nearest(weights):
    cfg = config()
    path, _ = weights(cfg)
    with pytest.raises(DataError, match=r"patches of 4 do not divide 2, 18; the nearest that they do are 4, 16, 20"):
        extrapolate.extrapolate(cfg, path, [2, 12, 18])


@pytest.mark.parametrize(
    "encoding, text",
    [
        (None, "NoPE"),
        (dict(type="PaPE", m=8, preset="x"), "PaPE(m=8, preset='x')"),
        ([dict(type="A"), dict(type="B", c=1)], "A, B(c=1)"),
    ],
)
def test_encodings_are_named_as_on_the_command_line(encoding, text):
    assert extrapolate.as_argument(encoding) == text


def one_run(encoding, seed, accuracies):
    figures = [
        extrapolate.Figure(size, (size, size), way, "", dict(accuracy=accuracy))
        for (size, way), accuracy in zip([(12, False), (12, True), (24, False), (24, True)], accuracies)
    ]
    return extrapolate.Tested(f"{encoding}{seed}.pth", encoding, seed, (12, 12), "accuracy", figures)


def test_runs_of_one_encoding_are_averaged_and_reported(tmp_path):
    runs = [
        one_run("A", 0, [0.9, 0.9, 0.5, 0.6]),
        one_run("A", 1, [0.8, 0.8, 0.4, 0.7]),
        one_run("B", 0, [0.7] * 4),
    ]
    rows = extrapolate.summarised(runs)
    assert rows["A", 24, True] == Summary.of([0.6, 0.7])
    tables = extrapolate.text(rows, "accuracy", "12")
    assert "(+20.00)" in tables
    assert "| B        | 1 |" in tables
    extrapolate.save(tmp_path, runs, rows, tables)
    extrapolate.draw(tmp_path / "x.png", rows, "accuracy", [12])
    content = json.loads((tmp_path / "extrapolate.json").read_text())
    assert content["rows"][3] == dict(encoding="A", size=24, interpolated=True, **Summary.of([0.6, 0.7]).__dict__)
    assert content["runs"][2]["figures"][0]["test"] == dict(accuracy=0.7)
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")
