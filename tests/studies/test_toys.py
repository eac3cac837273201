"""Toy tasks: correct and balanced answers that need positions, and what encodings learn of them."""

import pytest
import torch
from torch import Generator, nn

from ndformer.framework.engine.config.text import parse_encoding
from ndformer.lab.experiment import Cell, Results
from ndformer.studies.small import Reader
from ndformer.studies.toys import table
from ndformer.studies.toys.table import CONTROLS, ENCODINGS, EXPERIMENTS, LABELS, SHUFFLED, learning_curves, measure
from ndformer.studies.toys.tasks import SIDE, TASKS, TOKENS, WORDS, moved, rotated, scaled


def drawn(name: str, dims: int, count: int = 4000):
    return TASKS[name].draw(Generator().manual_seed(0), count, dims)


CASES = [(name, dims) for name, task in TASKS.items() for dims in (1, 2, 3, 4) if dims >= task.min_dims]


@pytest.mark.parametrize("name, dims", CASES)
def test_answers_are_balanced_and_words_are_the_same(name, dims):
    samples = drawn(name, dims)
    counts = torch.bincount(samples.targets)
    assert len(counts) == TASKS[name].outputs
    assert counts.min() > 0.85 * counts.max()
    assert samples.positions.shape == (4000, TOKENS, dims)
    assert (samples.tokens == samples.tokens[0]).all()


@pytest.mark.parametrize("dims", [1, 2, 4])
def test_answers_follow_from_the_positions(dims):
    r = drawn("direction", dims).positions
    assert torch.equal(drawn("direction", dims).targets, (r[:, 0, 0] < r[:, 1, 0]).long())
    near = (drawn("distance", dims).positions[:, 0] - drawn("distance", dims).positions[:, 1]).norm(dim=1) < 2.25
    assert torch.equal(drawn("distance", dims).targets, near.long())
    r = drawn("counting", dims).positions
    assert torch.equal(drawn("counting", dims).targets, ((r[:, 1:7] - r[:, :1]).norm(dim=2) < 2).sum(1))


def test_a_turn_is_the_sign_of_the_cross_product():
    samples = drawn("turn", 2)
    for r in (samples.positions, rotated(samples, Generator().manual_seed(1)).positions, moved(samples).positions):
        first, second = (r[:, 1] - r[:, 0]).unbind(1), (r[:, 2] - r[:, 1]).unbind(1)
        cross = first[0] * second[1] - first[1] * second[0]
        assert torch.equal(samples.targets, (cross > 0).long())


@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("name", ["distance", "counting"])
def test_the_set_of_positions_is_independent_of_the_answer(name, dims):
    """Otherwise a control with shuffled positions could answer: it did, up to 65 and 63 %."""
    samples = drawn(name, dims, 20_000)
    radius = (samples.positions - SIDE / 2).norm(dim=2)
    distances = torch.cdist(samples.positions, samples.positions)
    for value in (radius.mean(1), (radius < 2).float().sum(1), distances.mean((1, 2))):
        means = torch.stack([value[samples.targets == k].mean() for k in range(TASKS[name].outputs)])
        assert (means - value.mean()).abs().max() < 0.05 * value.std()


def test_a_turn_needs_all_three_words():
    samples = drawn("turn", 2, 20_000)
    left = samples.targets == 1
    for i, j in ((0, 1), (1, 2), (0, 2)):
        step = samples.positions[:, j] - samples.positions[:, i]
        assert (step[left].mean(0) - step[~left].mean(0)).abs().max() < 0.05 * step.std()


def test_shifts_and_rotations_keep_distances_and_scaling_multiplies_them():
    samples = drawn("distance", 3, 50)
    distances = torch.cdist(samples.positions, samples.positions)
    turned = rotated(samples, Generator().manual_seed(1))
    for changed, times in ((moved(samples), 1), (scaled(samples), 2), (turned, 1)):
        found = torch.cdist(changed.positions, changed.positions)
        torch.testing.assert_close(found, times * distances, atol=2e-3, rtol=1e-3)
    assert (moved(samples).positions - samples.positions - SIDE).abs().max() < 1e-6


@pytest.mark.parametrize("row", ENCODINGS)
def test_every_encoding_answers(row):
    samples = drawn("direction", 2, 3)
    reader = Reader(nn.Embedding(WORDS, 48), 2, samples, parse_encoding(ENCODINGS[row]))
    assert reader(samples).shape == (3, 2)


@pytest.mark.slow
@pytest.mark.parametrize(
    "row, dims", [("Sincos, PaPE", 2), ("AxialRoPE", 1), ("PaPE, spread", 3), (SHUFFLED, 2), (LABELS, 1)]
)
def test_every_row_measures_every_column_reproducibly(row, dims, tmp_path, monkeypatch):
    monkeypatch.setattr(table, "TEST", 40)
    experiment = next(e for e in EXPERIMENTS if e.name == f"toys:{dims}d-1block")
    values = measure(Cell(row, 3, "small", tmp_path), dims, 1, base_steps=4)
    assert set(experiment.columns) <= set(values)
    if row in CONTROLS:
        assert measure(Cell(row, 3, "small", tmp_path), dims, 1, base_steps=4) == values


CAN = {  # learns direction in one dimension, place with a class token without a position, and with one at the origin:
    "nnn": ("NoPE", SHUFFLED, LABELS),  # y, n, or ? if a hundred steps are too few
    "yyy": ("Sincos", "LearnableSincos", "LaPE", "Sincos, PaPE", "AxialRoPE", "RoPEMixed"),  # for the last two,
    "?yy": ("LearnableFourier", "LearnableAbsolute"),  # no position is position 0
    "nny": ("ALiBi", "PaPERI", "PaPEDirectional", "CoPE, two-sided"),
    "yny": ("LookHere", "Relative", "PaPE", "PaPE, spread", "PaPECompact", "Polynomial"),
    "?ny": ("DirectionalRPE",),
    "?n?": ("RelativeBias",),
    "ynn": ("CoPE",),  # sees no later token, and the class token at the origin is the first
}
MOVES = ("Sincos", "LearnableSincos", "LearnableFourier", "LearnableAbsolute", "LaPE", "Sincos, PaPE")


def test_every_row_has_an_expectation():
    assert sorted(row for rows in CAN.values() for row in rows) == sorted([*ENCODINGS, *CONTROLS])


@pytest.mark.slow
@pytest.mark.parametrize("can, row", [(can, row) for can, rows in CAN.items() for row in rows])
def test_each_encoding_learns_the_expected_tasks(can, row, tmp_path, monkeypatch):
    monkeypatch.setattr(table, "TASKS", {name: TASKS[name] for name in ("direction", "place")})
    monkeypatch.setattr(table, "BATCH", 64)
    monkeypatch.setattr(table, "TEST", 300)
    values = measure(Cell(row, 0, "small", tmp_path), 1, 1, base_steps=100)
    found = [values[name] for name in ("direction", "place", "place origin")]
    for answer, value in zip(can, found):
        assert answer == "?" or (value > 75 if answer == "y" else value < 65), found
    if row not in (*MOVES, "AxialRoPE", "RoPEMixed"):  # a class token at 0 does not move with the others
        assert values["direction moved"] == values["direction"]


@pytest.mark.parametrize("name", TASKS)
def test_controls_permute_tokens_of_a_sample_and_answers_of_samples(name):
    true = table.draw_samples(name, 2, 200, Generator().manual_seed(1))
    places = table.draw_samples(name, 2, 200, Generator().manual_seed(1), "places")
    labels = table.draw_samples(name, 2, 200, Generator().manual_seed(1), "labels")
    assert torch.equal(places.tokens.sort(1).values, true.tokens.sort(1).values)
    assert (places.tokens != true.tokens).any(1).double().mean() > 0.8
    assert torch.equal(places.targets, true.targets)
    assert torch.equal(labels.targets.sort().values, true.targets.sort().values)
    assert (labels.targets == true.targets).double().mean() < 1 / TASKS[name].outputs + 0.15
    for control in (places, labels):
        assert torch.equal(control.positions, true.positions)
    assert torch.equal(labels.tokens, true.tokens)


def test_the_picture_has_every_column_and_the_learning_curves(tmp_path, monkeypatch):
    monkeypatch.setattr(table, "TEST", 20)
    monkeypatch.setattr(table, "BATCH", 8)
    experiment = next(e for e in EXPERIMENTS if e.name == "toys:2d-1block")
    results = Results({"NoPE": {0: measure(Cell("NoPE", 0, "small", tmp_path), 2, 1, base_steps=4)}})
    as_often = dict.fromkeys(["direction", "distance", "counting", "place", "place origin"], [1, 2, 3, 4])
    assert {task: list(rows["NoPE"]) for task, rows in learning_curves(results).items()} == as_often | {
        "turn": [2, 4, 6, 8]
    }
    assert experiment.draw is not None
    experiment.draw(results, tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 20_000


@pytest.mark.slow
def test_relative_encodings_read_out_the_tokens_in_one_block(tmp_path, monkeypatch):
    """A class token without a position would reach 50 %."""
    monkeypatch.setattr(table, "TASKS", {"direction": TASKS["direction"]})
    values = measure(Cell("PaPE, spread", 0, "small", tmp_path), 2, 1, base_steps=120)
    assert values["direction"] > 85
    assert values["direction moved"] > 85
