"""Figures and pretraining of the thesis, at a tiny scale."""

import pytest
import torch

from ndformer.lab.experiment import Cell, Results
from ndformer.studies import find
from ndformer.studies.small import Control
from ndformer.studies.thesis import images, learning, pretraining, red_green, similarity
from ndformer.studies.thesis.probes import embeddings
from ndformer.studies.thesis.red_green import SIDE, grid_positions, train_reader


@pytest.fixture
def tiny(monkeypatch):
    monkeypatch.setattr(red_green, "TEST", 50)
    monkeypatch.setattr(learning, "AMOUNTS", (100, 200))
    monkeypatch.setattr(learning, "STEPS", 4)
    monkeypatch.setattr(similarity, "WHEN", {"before": 0, "after": 0})


def results_of(name: str, tmp_path, rows: int = 1) -> Results:
    experiment = find(name)
    measured = {row: {0: experiment.measure(Cell(row, 0, "small", tmp_path))} for row in experiment.rows[:rows]}
    return Results(measured)


@pytest.mark.parametrize("name", ["thesis:figure3", "thesis:figure5"])
def test_figures_are_drawn_from_what_was_measured(name, tmp_path, tiny):
    draw = find(name).draw
    assert draw is not None
    draw(results_of(name, tmp_path), tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 5000


@pytest.mark.parametrize("rows", [list(images.ROWS), ["Absolute"], ["Relative", "None"]])
def test_figure_6_is_of_gains_over_absolute_however_few_rows_there_are(rows, tmp_path):
    scores = {f"signs@{n}": float(n) for n in images.EPOCHS}
    images.draw(Results({row: dict.fromkeys(range(2), scores) for row in rows}), tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 5000


@pytest.mark.slow
@pytest.mark.parametrize("name", ["thesis:table2", "thesis:figure5", "thesis:pretraining"])
def test_controls_learn_from_what_they_say(name, tmp_path, monkeypatch):
    """Labels of other images, and images whose patches are dealt out; other rows from neither."""
    experiment, asked = find(name), []
    true = red_green.images

    def images(*args, control: Control = "", **rest):
        asked.append(control)
        return true(*args, control=control, **rest)

    monkeypatch.setattr(red_green, "images", images)
    monkeypatch.setattr(red_green, "fit", lambda *args: None)
    for row in experiment.rows:
        asked.clear()
        experiment.measure(Cell(row, 0, "small", tmp_path))
        control = "labels" if "labels at random" in row else "places" if "places shuffled" in row else ""
        assert control in asked, row
        assert set(asked) <= {control, ""}, row


def test_halves_and_neighbours_are_told_apart():
    rows, columns = grid_positions()[0].T
    halves = torch.stack([rows < SIDE // 2, rows >= SIDE // 2], 1).double()
    assert similarity.by_half(similarity.similarity(halves)) == 1
    assert similarity.by_distance(similarity.similarity(halves)) == 0
    arc = torch.stack([(columns / 5).cos(), (columns / 5).sin()], 1).double()
    assert similarity.by_distance(similarity.similarity(arc)) == pytest.approx(
        torch.tensor([0.2, 0.8], dtype=torch.float64).cos().diff().neg().item(), abs=1e-6
    )


def test_pretraining_goes_on_from_task_to_task_and_ends_in_the_checkpoint(tmp_path):
    short = dict(count=100, epochs=1)
    path = pretraining.pretrained(tmp_path, 0, **short)  # pyright: ignore[reportArgumentType]
    first, last = torch.load(tmp_path / "directions.pt"), torch.load(path)
    moved = [(last[name] - first[name]).abs().max() for name in first]
    assert 0 < max(moved) < 0.1  # a step on, from where the other task ended
    taken = embeddings(train_reader("location", pretraining.pretrained_encoding(path), 5, epochs=0))
    drawn = embeddings(train_reader("location", pretraining.STARTS, 5, epochs=0))
    code = torch.cat(
        [(grid_positions()[0] @ last["frequencies"].T).cos(), (grid_positions()[0] @ last["frequencies"].T).sin()], 1
    )
    hidden = torch.nn.functional.gelu(code / 64**0.5 @ last["first.weight"].T + last["first.bias"])
    torch.testing.assert_close(taken.float(), hidden @ last["last.weight"].T + last["last.bias"], atol=1e-5, rtol=1e-4)
    assert not torch.allclose(taken, drawn)


def test_what_is_pretrained_is_trained_on_images(tmp_path, monkeypatch):
    """The row of Figure 6 names a checkpoint that exists; other rows name none."""
    monkeypatch.setattr(images, "pretrained", lambda folder, seed, dim: tmp_path / f"{seed}_{dim}.pt")
    cell = Cell(images.PRETRAINED, 3, "small", tmp_path)
    assert images.row_encoding(cell, 64) == f"LearnableFourier(pretrained='{tmp_path}/3_64.pt')"
    assert images.row_encoding(Cell("None", 3, "small", tmp_path), 64) == "NoPE"
