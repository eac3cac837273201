"""Trained models at other input sizes: test images, scaling of positions, tables and pictures."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from matplotlib.axes import Axes
from mmengine.config import Config
from PIL import Image

from ndformer.framework.data.dataset import Dataset
from ndformer.framework.encoding.scaling import Scaling
from ndformer.framework.engine.building import build_model
from ndformer.framework.engine.run import build_loader, evaluate
from ndformer.framework.engine.training import checkpoint
from ndformer.framework.errors import DataError
from ndformer.framework.quantity import Quantity
from ndformer.framework.registry import DATASETS
from ndformer.lab import aspect_gap, extrapolate, extrapolate_table, paired
from ndformer.lab.extrapolate_table import Chart
from ndformer.lab.interval import Summary

PACK = dict(type="PackImage")


@pytest.fixture(scope="module", autouse=True)
def stripes():
    """Register gray images of 12 x 12 with a bright column on the left, in the middle or on the right."""

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
    """Return a function that trains a few steps and writes a checkpoint."""

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


def test_the_training_size_gives_the_result_of_evaluate(weights):
    cfg = config()
    path, model = weights(cfg)
    tested = extrapolate.extrapolate(cfg, path, [12, 16])
    expected = evaluate(cfg, model, build_loader(cfg, "test")).values
    assert [figure.test for figure in tested.figures[:2]] == [expected, expected]
    assert tested.figures[0].did == "as in the config"
    assert (tested.train_shape, tested.metric, tested.encoding, tested.seed) == ((12, 12), "accuracy", "Sincos", 3)


@pytest.mark.parametrize("encoding", ["Sincos", "PaPE"])
def test_other_sizes_evaluate_resized_images_with_scaled_positions(weights, encoding):
    cfg = config(encoding)
    path, model = weights(cfg)
    tested = extrapolate.extrapolate(cfg, path, [24])
    at = config(encoding, [dict(type="Resize", size=(24, 24)), PACK])
    for figure, scale in zip(tested.figures, (1.0, 0.5)):
        model.backbone.encoding.scale_positions = scale
        assert figure.test == evaluate(at, model, build_loader(at, "test")).values
        assert (figure.interpolated, figure.scaling) == ((True, "linear") if scale == 0.5 else (False, "none"))
        assert figure.did == "Resize to 24 x 24 put in front"
        assert paired.decode(figure.correct or "").mean() == figure.test["accuracy"]


def test_interpolation_reaches_every_encoding():
    cfg = config()
    cfg.model.backbone.encoding = [dict(type="Sincos"), dict(type="PaPE")]
    model = build_model(cfg)
    extrapolate.scale(model, "linear", (12, 16), (24, 64), 4)
    for part in model.backbone.encoding.parts:
        assert part.factors == (0.5, 0.25)


def test_an_inner_encoding_is_not_scaled_twice():
    model = build_model(config("LaPE"))
    extrapolate.scale(model, "linear", (12, 12), (24, 24), 4)
    outer = model.backbone.encoding
    assert [a * b for a, b in zip(outer.factors, outer.encoding.factors)] == [0.5, 0.5]


@pytest.mark.parametrize("encoding", ["AxialRoPE", "RoPEMixed"])
def test_ntk_and_yarn_scale_the_frequencies(weights, encoding):
    cfg = config(encoding)
    path, model = weights(cfg)
    ways: list[extrapolate.ScalingName] = ["none", "ntk", "yarn"]
    tested = extrapolate.extrapolate(cfg, path, [12, (12, 24)], scalings=ways)
    same = [figure.test["accuracy"] for figure in tested.figures[:3]]
    assert same[0] == same[1] == same[2]
    assert [figure.scaling for figure in tested.figures] == ways * 2
    at = config(encoding, [dict(type="Resize", size=(12, 24)), PACK])
    for figure in tested.figures[3:]:
        scaling = None if figure.scaling == "none" else Scaling(figure.scaling, (1.0, 2.0), (3.0, 3.0))
        model.backbone.encoding.scaling = scaling
        assert figure.test == evaluate(at, model, build_loader(at, "test")).values
        assert (figure.size, figure.shape) == ("12x24", (12, 24))


def test_ntk_needs_rotary_frequencies(weights):
    cfg = config()
    path, _ = weights(cfg)
    tested = extrapolate.extrapolate(cfg, path, [24], scalings=["linear", "ntk", "yarn"])
    assert [figure.scaling for figure in tested.figures] == ["linear"]
    with pytest.raises(DataError, match="ntk and yarn expected a rotary encoding, got Sincos"):
        extrapolate.extrapolate(cfg, path, [24], scalings=["ntk"])


def resize(size):
    return dict(type="Resize", size=size)


def crop(size):
    return dict(type="CenterCrop", size=size)


def eval_crop(size):
    return dict(type="EvalCrop", size=size)


@pytest.mark.parametrize(
    "transforms, size, changed, did",
    [
        ([], 24, [resize((24, 24))], "Resize to 24 x 24 put in front"),
        ([], (12, 24), [resize((12, 24))], "Resize to 12 x 24 put in front"),
        ([resize(16), crop(12)], 24, [resize(32), crop(24)], "Resize size 16 -> 32, CenterCrop size 12 -> 24"),
        (
            [resize(16), crop(12)],
            (12, 24),
            [resize(32), crop((12, 24))],
            "Resize size 16 -> 32, CenterCrop size 12 -> (12, 24)",
        ),
        ([eval_crop(12)], 20, [eval_crop(20)], "EvalCrop size 12 -> 20"),
        ([eval_crop(12)], (24, 12), [eval_crop((24, 12))], "EvalCrop size 12 -> (24, 12)"),
        ([resize((12, 24))], 16, [resize((16, 32))], "Resize size (12, 24) -> (16, 32)"),
        ([resize((12, 24))], (12, 12), [resize((12, 12))], "Resize size (12, 24) -> (12, 12)"),
    ],
)
def test_sizes_of_test_transforms_change_in_proportion(transforms, size, changed, did):
    transforms, changed = [*transforms, PACK], [*changed, PACK]
    cfg = config(test=transforms)
    own = extrapolate._shape(cfg, "test")
    at, description = extrapolate.resized(cfg, own, extrapolate._scaled(own, size))
    assert [dict(one) for one in at.test_dataloader.dataset.transforms] == changed
    assert description == did
    assert [dict(one) for one in cfg.test_dataloader.dataset.transforms] == transforms
    pixels = own[0] * own[1] * 8
    assert at.test_dataloader.batch_size * np.prod(extrapolate._scaled(own, size)) <= pixels


def test_the_default_size_of_a_transform_changes():
    _, description = extrapolate.resized(config(test=[dict(type="EvalCrop"), PACK]), (224, 224), (112, 112))
    assert description == "EvalCrop size 224 -> 112"


def test_the_training_size_is_that_after_the_training_transforms(weights):
    cfg = config(train=[dict(type="RandomCrop", size=8), PACK])
    path, _ = weights(cfg)
    assert extrapolate.extrapolate(cfg, path, [12]).train_shape == (8, 8)


def test_sizes_that_patches_do_not_divide_are_errors_with_the_nearest(weights):
    cfg = config()
    path, _ = weights(cfg)
    with pytest.raises(DataError, match=r"patches of 4 do not divide 2, 18; the nearest that they do are 4, 16, 20"):
        extrapolate.extrapolate(cfg, path, [2, 12, 18])
    with pytest.raises(DataError, match=r"patches of 4 do not divide 12x18; the nearest that they do are 12x16, 12x20"):
        extrapolate.extrapolate(cfg, path, [12, (12, 18)])


def test_encodings_are_named_as_on_the_command_line():
    assert extrapolate.as_argument(None) == "NoPE"
    assert extrapolate.as_argument(dict(type="PaPE", m=8, preset="x")) == "PaPE(m=8, preset='x')"
    assert extrapolate.as_argument([dict(type="A"), dict(type="B", c=1)]) == "A, B(c=1)"


SHARE, PIXELS = Quantity.create("higher", "share"), Quantity.create("lower", "px", 1)


def one_run(encoding, seed, accuracies, sizes=((12, (12, 12)), (24, (24, 24))), ways=("none", "linear")):
    at = [(size, shape, way) for size, shape in sizes for way in ways]
    figures = [
        extrapolate.Figure(*of, "", dict(accuracy=accuracy), correct=f"1:{seed:02x}")
        for of, accuracy in zip(at, accuracies, strict=True)
    ]
    return extrapolate.Tested(f"{encoding}{seed}.pth", encoding, seed, (12, 12), "accuracy", SHARE, figures)


def test_runs_of_an_encoding_are_averaged_and_reported(tmp_path):
    runs = [
        one_run("A", 0, [0.9, 0.9, 0.5, 0.6]),
        one_run("A", 1, [0.8, 0.8, 0.4, 0.7]),
        one_run("B", 0, [0.7] * 4),
    ]
    rows, sizes = extrapolate_table.summarize(runs), extrapolate_table.shapes(runs)
    assert rows["A", 24, "linear"] == Summary.from_values([0.6, 0.7])
    tables = extrapolate_table.text(rows, list(sizes), "accuracy", SHARE, "12")
    assert "(+20.00)" in tables
    assert "| B        | 1 |" in tables
    extrapolate_table.save(tmp_path, runs, rows, tables)
    extrapolate_table.draw(tmp_path / "x.png", Chart(rows, sizes, "accuracy", SHARE, [(12, 12)]))
    content = json.loads((tmp_path / "extrapolate.json").read_text())
    summary = Summary.from_values([0.6, 0.7]).__dict__
    place = dict(encoding="A", size=24, shape=[24, 24], scaling="linear", interpolated=True)
    assert content["rows"][3] == place | summary
    assert content["runs"][2]["figures"][0]["test"] == dict(accuracy=0.7)
    assert [figure["interpolated"] for figure in content["runs"][0]["figures"]] == [False, True, False, True]
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")


def test_runs_are_added_to_those_of_a_folder_and_replace_equal_ones(tmp_path):
    def save(*runs):
        every = extrapolate_table.add_earlier(runs, tmp_path)
        extrapolate_table.save(tmp_path, every, extrapolate_table.summarize(every), "")
        return [(run.encoding, run.seed, run.figures[0].test["accuracy"]) for run in every]

    assert save(one_run("A", 0, [0.9, 0.9, 0.5, 0.6]), one_run("B", 0, [0.8] * 4)) == [("A", 0, 0.9), ("B", 0, 0.8)]
    before = extrapolate_table.add_earlier([], tmp_path)
    assert before == [one_run("A", 0, [0.9, 0.9, 0.5, 0.6]), one_run("B", 0, [0.8] * 4)]
    assert save(one_run("B", 0, [0.7] * 4), one_run("B", 1, [0.6] * 4)) == [("A", 0, 0.9), ("B", 0, 0.7), ("B", 1, 0.6)]
    with pytest.raises(DataError, match="expected one metric and the same sizes in all runs, got accuracy at 12, 24;"):
        save(replace(one_run("C", 0, [0.6] * 4), figures=one_run("C", 0, [0.6] * 4).figures[:1]))
    with pytest.raises(DataError, match="expected runs of one training size and one unit, got 12 x 12 with"):
        save(replace(one_run("A", 3, [0.6] * 4), train_shape=(48, 48)))
    run = one_run("A", 1, [0.6] * 4)
    continued = replace(run, figures=[figure for figure in run.figures if figure.scaling == "none"])
    with pytest.raises(DataError, match=r"expected the same --scalings in all runs of A, got none, linear; none"):
        save(continued)
    (tmp_path / "extrapolate.json").write_text('{"runs": [{"figures": []}]}')
    with pytest.raises(DataError, match="is not a file of ndformer extrapolate"):
        save(one_run("A", 0, [0.9] * 4))


def test_the_aspect_gap_compares_rectangles_with_squares_of_equal_area(tmp_path):
    """Scores are linear in the side of a square, so each gap is what the rectangles were given."""
    shapes = [(h, w) for h in (16, 36, 64) for w in (16, 36, 64)]
    score = lambda h, w, loss: math.sqrt(h * w) / 100 - loss * (h != w)
    sizes = [(f"{h}x{w}", (h, w)) for h, w in shapes]
    runs = [
        one_run("A", seed, [score(h, w, loss) for h, w in shapes], sizes, ("none",))
        for seed, loss in enumerate((0.02, 0.04))
    ]
    gap = aspect_gap.gaps(runs)["A", "none"]
    assert gap.mean == pytest.approx(-0.03)
    assert gap.n == 2
    assert "-3.00" in aspect_gap.text({("A", "none"): gap}, SHARE)
    in_pixels = [replace(run, quantity=PIXELS) for run in runs]
    worse = aspect_gap.gaps(in_pixels)["A", "none"]
    assert worse.mean == pytest.approx(0.03)  # rectangles have less, which is better
    assert "in px, positive where the value is lower" in aspect_gap.text({("A", "none"): worse}, PIXELS)
    few = [(size, shape) for size, shape in sizes if shape in ((36, 36), (36, 64), (16, 16), (16, 36))]
    (run,) = [one_run("A", 0, [score(h, w, 0.05) + (w == 64) for _, (h, w) in few], few, ("none",))]
    assert aspect_gap.aspect_gap(run, "none") == pytest.approx(-0.05)  # 36 x 64 is larger than every square
    assert aspect_gap.gaps([one_run("B", 0, [0.5], [("12x24", (12, 24))], ("none",))]) == {}


def test_a_missing_aspect_gap_is_explained():
    between = "no rectangle has an area between those of the smallest and the largest measured square"
    shapes = [(h, w) for h in (24, 60) for w in (24, 48)]
    run = one_run("A", 0, [0.5] * 4, [(f"{h}x{w}", (h, w)) for h, w in shapes], ("none",))
    assert aspect_gap.gaps([run]) == {}
    assert between in aspect_gap.missing_note([run])
    assert aspect_gap.missing_note([one_run("A", 0, [0.5] * 4)]) == ""  # squares only


def test_a_value_in_pixels_is_not_written_in_percent(tmp_path):
    """Issue 44.1"""
    runs = [one_run("A", 0, [4.0, 4.0, 9.5, 7.0])]
    rows, sizes = extrapolate_table.summarize(runs), extrapolate_table.shapes(runs)
    tables = extrapolate_table.text(rows, list(sizes), "error", PIXELS, "12")
    assert "test error in px, lower is better, trained at 12" in tables
    assert "7.0 (-2.5)" in tables
    extrapolate_table.draw(tmp_path / "x.png", Chart(rows, sizes, "error", PIXELS, [(12, 12)]))


def test_encodings_without_frequencies_have_no_row_in_the_table_of_ntk(tmp_path):
    ways = ("none", "ntk")
    runs = [one_run("A", 0, [0.9, 0.9, 0.5, 0.6], ways=ways), one_run("B", 0, [0.7, 0.6], ways=("none",))]
    rows, sizes = extrapolate_table.summarize(runs), extrapolate_table.shapes(runs)
    plain, ntk = extrapolate_table.text(rows, list(sizes), "accuracy", SHARE, "12").split("NTK-aware")
    assert "| B " in plain
    assert "| B " not in ntk
    assert "60.00 (+10.00)" in ntk
    extrapolate_table.draw(tmp_path / "x.png", Chart(rows, sizes, "accuracy", SHARE, [(12, 12)]))


@pytest.mark.parametrize("missing, maps", [(0, 1), (1, 0)])
def test_a_grid_of_sizes_is_drawn_as_a_map(tmp_path, monkeypatch, missing, maps):
    sizes = [(f"{h}x{w}", (h, w)) for h in (12, 24) for w in (12, 24, 36)][missing:]
    runs = [one_run("A", 0, [i / 10 for i in range(len(sizes))], sizes, ("none",))]
    rows, found = extrapolate_table.summarize(runs), extrapolate_table.shapes(runs)
    pixels = [h * w for h, w in found.values()]
    assert pixels == sorted(pixels)
    drawn = []
    monkeypatch.setattr(Axes, "imshow", lambda self, values, **options: drawn.append(values))
    extrapolate_table.draw(tmp_path / "x.png", Chart(rows, found, "accuracy", SHARE, [(12, 12)]))
    assert len(drawn) == maps
    if maps:
        assert drawn[0] == pytest.approx(np.arange(6).reshape(2, 3) * 10)
    assert (tmp_path / "x.png").is_file()
