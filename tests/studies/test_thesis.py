"""Figures and pretraining of the thesis, at a tiny scale."""

import math

import pytest
import torch

from ndformer.lab.experiment import Cell, Results
from ndformer.studies import find
from ndformer.studies.small import Control
from ndformer.studies.thesis import images, pretraining, probes, red_green, tables
from ndformer.studies.thesis.probes import by_distance, by_half, embeddings, similarity
from ndformer.studies.thesis.red_green import SIDE, grid_positions, train_reader


@pytest.fixture
def tiny(monkeypatch):
    monkeypatch.setattr(red_green, "TEST", 50)
    monkeypatch.setattr(tables, "AMOUNTS", (100, 200))
    monkeypatch.setattr(tables, "STEPS", 4)
    monkeypatch.setattr(probes, "WHEN", {"before": 0, "after": 0})


@pytest.mark.parametrize("name", ["thesis:figure3", "thesis:figure5"])
def test_figures_are_drawn_from_measurements(name, tmp_path, tiny):
    experiment, row = find(name), find(name).rows[0]
    assert experiment.draw is not None
    results = Results({row: {0: experiment.measure(Cell(row, 0, "small", tmp_path))}})
    experiment.draw(results, tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 5000


@pytest.mark.parametrize("rows", [list(images.ROWS), ["Absolute"], ["Relative", "None"]])
def test_figure_6_is_drawn_from_any_rows(rows, tmp_path):
    scores = {f"signs@{n}": float(n) for n in images.EPOCHS}
    images.draw(Results({row: dict.fromkeys(range(2), scores) for row in rows}), tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 5000


@pytest.mark.slow
@pytest.mark.parametrize("name", ["thesis:table2", "thesis:figure5", "thesis:pretraining"])
def test_controls_train_on_random_labels_or_shuffled_positions(name, tmp_path, monkeypatch):
    experiment, used = find(name), []
    true = red_green.images

    def images(*args, control: Control = "", **rest):
        used.append(control)
        return true(*args, control=control, **rest)

    monkeypatch.setattr(red_green, "images", images)
    monkeypatch.setattr(red_green, "fit", lambda *args: None)
    for row in experiment.rows:
        used.clear()
        experiment.measure(Cell(row, 0, "small", tmp_path))
        control = "labels" if "labels at random" in row else "places" if "places shuffled" in row else ""
        assert control in used, row
        assert set(used) <= {control, ""}, row


def test_similarity_of_halves_and_neighbors():
    rows, columns = grid_positions()[0].T
    halves = torch.stack([rows < SIDE // 2, rows >= SIDE // 2], 1).double()
    assert by_half(similarity(halves)) == 1
    assert by_distance(similarity(halves)) == 0
    arc = torch.stack([(columns / 5).cos(), (columns / 5).sin()], 1).double()
    assert by_distance(similarity(arc)) == pytest.approx(math.cos(0.2) - math.cos(0.8), abs=1e-6)


def test_pretraining_continues_from_task_to_task_and_writes_the_checkpoint(tmp_path):
    short = dict(count=100, epochs=1)
    path = pretraining.pretrained(tmp_path, 0, **short)  # pyright: ignore[reportArgumentType]
    first, last = torch.load(tmp_path / "directions.pt"), torch.load(path)
    moved = [(last[name] - first[name]).abs().max() for name in first]
    assert 0 < max(moved) < 0.1  # one step after the end of the other task
    loaded = embeddings(train_reader("location", pretraining.pretrained_encoding(path), 5, epochs=0))
    random = embeddings(train_reader("location", pretraining.STARTS, 5, epochs=0))
    angles = grid_positions()[0] @ last["frequencies"].T
    code = torch.cat([angles.cos(), angles.sin()], 1)
    hidden = torch.nn.functional.gelu(code / 64**0.5 @ last["first.weight"].T + last["first.bias"])
    torch.testing.assert_close(loaded.float(), hidden @ last["last.weight"].T + last["last.bias"], atol=1e-5, rtol=1e-4)
    assert not torch.allclose(loaded, random)


def test_the_pretrained_row_of_figure_6_loads_its_checkpoint(tmp_path, monkeypatch):
    monkeypatch.setattr(images, "pretrained", lambda folder, seed, dim: tmp_path / f"{seed}_{dim}.pt")
    cell = Cell(images.PRETRAINED, 3, "small", tmp_path)
    assert images.row_encoding(cell, 64) == f"LearnableFourier(pretrained='{tmp_path}/3_64.pt')"
    assert images.row_encoding(Cell("None", 3, "small", tmp_path), 64) == "NoPE"
