"""vitarc:tasks: new test grids, positions of each row, and reproducible cells."""

import pytest
import torch

from ndformer.lab.experiment import Cell
from ndformer.studies.small import fit
from ndformer.studies.vitarc import tasks
from ndformer.studies.vitarc.tasks import CANVAS, ROWS, SYMBOLS, TASKS, Painter, draw_samples, measure, solve_rate


@pytest.fixture(scope="module")
def samples():
    return draw_samples("boxes", "train", 40, seed=0)


def test_test_grids_are_new_and_without_duplicates():
    few = draw_samples("mirror", "train", 30, seed=0)
    assert torch.equal(few.tokens, draw_samples("mirror", "train", 30, seed=0).tokens)
    assert not torch.equal(few.tokens, draw_samples("mirror", "train", 30, seed=1).tokens)
    test = draw_samples("mirror", "test", 20, seed=0)
    both = few._replace(tokens=torch.cat([few.tokens, test.tokens[:5]]))
    assert len(draw_samples("mirror", "test", 20, seed=0, but=both).tokens) == 15
    assert test.targets.shape == (20, CANVAS**2)


@pytest.mark.parametrize("row", ROWS)
def test_every_row_reads_canvases(row, samples):
    painter = Painter(ROWS[row][0], samples, ROWS[row][1])
    some = samples._replace(tokens=samples.tokens[:3])
    assert painter(some).shape == (3, SYMBOLS, CANVAS**2)


def test_positions_of_tokens(samples):
    placed = {}
    for places in ("grid", "raster", "objects", "shuffled"):
        painter = Painter("NoPE", samples, places)
        placed[places] = painter._placed(painter.cells(samples.tokens)).where.positions
    grid = placed["grid"].expand(40, -1, -1)
    assert torch.equal(placed["raster"][0, :, 0], 9 * placed["grid"][0, :, 0] + placed["grid"][0, :, 1])
    assert torch.equal(placed["objects"][..., 1:], grid)
    assert placed["objects"][..., 0].max() >= 1
    numbers = placed["shuffled"] @ torch.tensor([9.0, 1.0])
    assert torch.equal(numbers.sort(1).values, torch.arange(81.0).expand(40, -1))  # every position once
    assert not torch.equal(placed["shuffled"][0], placed["shuffled"][1])


def test_a_grid_is_solved_if_every_cell_is_correct(samples):
    painter = Painter("NoPE", samples)
    answers = painter(samples).argmax(1)
    assert solve_rate(painter, samples._replace(targets=answers)) == 100
    one_wrong = answers.clone()
    one_wrong[:10, 7] = (one_wrong[:10, 7] + 1) % SYMBOLS
    assert solve_rate(painter, samples._replace(targets=one_wrong)) == 75


def test_random_answers_are_those_of_other_canvases(samples):
    other = tasks.shuffled_answers(samples, 0)
    assert torch.equal(other.tokens, samples.tokens)
    assert torch.equal(other.targets.unique(dim=0), samples.targets.unique(dim=0))
    assert (other.targets == samples.targets).all(1).double().mean() < 0.2


@pytest.mark.slow
def test_a_few_pairs_can_be_memorized():
    torch.manual_seed(0)
    few = draw_samples("mirror", "train", 4, seed=0)
    painter = Painter("Sincos", few)
    fit(painter, tasks.batches(few, 0), 120, 1e-2)
    assert solve_rate(painter, few) == 100


@pytest.mark.parametrize("row", ["Sincos, places shuffled", tasks.LABELS])
def test_a_cell_measures_every_column_reproducibly(row, tmp_path, monkeypatch):
    monkeypatch.setattr(tasks, "TASKS", ("swap", "boxes"))
    monkeypatch.setattr(tasks, "MEANS", dict.fromkeys(tasks.MEANS, ("swap", "boxes")))
    cell = Cell(row, 3, "small", tmp_path)
    values = measure(cell, steps=2, train=10, test=6)
    assert values == measure(cell, steps=2, train=10, test=6)
    assert set(tasks.EXPERIMENTS[0].columns) - set(values) == set(TASKS) - {"swap", "boxes"}
