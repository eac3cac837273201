"""The study of rectangles: learning rates by validation, equal test images, maps and gaps."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from ndformer.lab.experiment import Cell, Results
from ndformer.lab.runner import take_over
from ndformer.studies import find
from ndformer.studies.rectangles import maps
from ndformer.studies.rectangles.maps import CELLS, SIGNS, TRAININGS, TUNING_SEED, columns, named, run_training, shapes

SETS = pytest.mark.parametrize("on", [SIGNS, CELLS], ids=["signs", "cells"])


def cell(home: Path, row: str = "PaPE", seed: int = 0) -> Cell:
    return Cell(row, seed, "small", home / "work" / "rectangles_signs_small" / "cell", home / "data")


@SETS
def test_both_trainings_have_the_same_recipe_but_for_their_images(on, tmp_path):
    squares, rectangles = (run_training(cell(tmp_path), on, training, 1e-3).cfg for training in TRAININGS)
    for key in ("model", "optimizer", "schedule", "train_cfg", "ema", "metrics"):
        assert squares.get(key) == rectangles.get(key), key
    tokens = (on.side // on.patch) ** 2
    assert rectangles.train_dataloader.batch_tokens == squares.train_dataloader.batch_size * tokens
    lengths = rectangles.train_dataloader.lengths
    assert sum(lengths) / len(lengths) == tokens
    assert all(side % on.patch == 0 for side in (on.side, *on.sides))


def test_learning_rates_are_chosen_by_validation_on_a_seed_that_is_not_reported(tmp_path, monkeypatch):
    seeds = []

    def run(cell, on, training, rate):
        seeds.append(cell.seed)
        return SimpleNamespace(results={"val": {"accuracy": -abs(rate - 1e-3)}, "test": {"accuracy": rate}})

    monkeypatch.setattr(maps, "run_training", run)
    assert maps.best_rate(cell(tmp_path, seed=2), SIGNS) == 1e-3
    assert set(seeds) == {TUNING_SEED}
    work = cell(tmp_path).folder.parent
    take_over(
        find("rectangles:signs"), "small", Results({"PaPE": {0: dict.fromkeys(columns(SIGNS), 5e-4)}}), work.parent
    )
    seeds.clear()
    assert maps.best_rate(cell(tmp_path, seed=2), SIGNS) == maps.best_rate(cell(tmp_path, maps.PLACES), SIGNS) == 5e-4
    assert not seeds, "the rate of another seed is that of the row"
    assert TUNING_SEED not in range(find("rectangles:signs").scales["small"].seeds)


@pytest.mark.slow
def test_a_cell_has_a_map_for_each_training_on_the_same_test_images(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    smaller = [option for option in SIGNS.options if "max_epochs" not in option]
    tiny = ("train_cfg.max_epochs=1", "train_dataloader.dataset.per_class=6", "test_dataloader.dataset.per_class=4")
    tiny += ("model.backbone.dim=16", "model.backbone.depth=1", "model.backbone.heads=2")
    sample = SIGNS._replace(data=None, sides=(32, 48), options=(*smaller, *tiny), learning_rates=(1e-3, 2e-2))
    tested = []
    original = maps.extrapolate

    def extrapolate(settings, *args, **options):
        tested.append(settings.test_dataloader.to_dict())
        return original(settings, *args, **options)

    monkeypatch.setattr(maps, "extrapolate", extrapolate)
    values = maps.measure(cell(tmp_path), sample)
    assert set(maps.columns(sample)) <= set(values)
    assert tested[0] == tested[1]
    for training in TRAININGS:
        scores = {shape: values[named(training, shape)] for shape in shapes(sample)}
        assert values[f"{training} mean"] == pytest.approx(np.mean(list(scores.values())))
        # sides of 32 and 48: the square of equal area has the side 39.19, 0.449 of the way
        square = scores[32, 32] + (1536**0.5 - 32) / 16 * (scores[48, 48] - scores[32, 32])
        assert values[f"{training} gap"] == pytest.approx((scores[32, 48] + scores[48, 32]) / 2 - square, abs=1e-9)
    assert values["lr"] in sample.learning_rates


def test_the_picture_has_a_map_for_each_encoding_and_training(tmp_path):
    rng = np.random.default_rng(0)
    names = [named(training, shape) for training in TRAININGS for shape in shapes(SIGNS)]
    names += [f"{training} gap" for training in TRAININGS]
    values = {
        row: {seed: {name: rng.uniform(10, 90) for name in names} for seed in (0, 1)} for row in ("Sincos", "PaPE")
    }
    results = Results(values)
    expected = np.mean([values["PaPE"][seed]["squares 32x96"] for seed in (0, 1)])
    assert maps.score_map(results, SIGNS, "PaPE", "squares")[32, 96].mean == pytest.approx(expected)
    maps.draw(results, tmp_path / "picture.png", SIGNS)
    assert (tmp_path / "picture.png").stat().st_size > 10_000
