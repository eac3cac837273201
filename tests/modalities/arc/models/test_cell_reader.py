"""Cells: a class each, right only as a whole."""

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from ndformer.framework.answers.pixels import Cells
from ndformer.framework.errors import DataError
from ndformer.framework.evaluation.mean_iou import SolveRate
from ndformer.framework.tokens import TokenSet, Where
from ndformer.modalities.arc.models.cell_reader import CellReader

NAMES = ["a", "b", "c"]


@pytest.fixture
def tokens():
    torch.manual_seed(0)
    return TokenSet(torch.randn(2, 6, 4), Where(torch.rand(1, 6, 2)))


def test_the_loss_is_the_cross_entropy_of_known_cells_and_answers_are_grids(tokens):
    head = CellReader(4, 3)
    truth = torch.tensor([[[0, 1, 2], [2, 1, -1]], [[0, 0, 0], [1, 1, 1]]])
    samples = [dict(labels=one, path=f"grid{i}") for i, one in enumerate(truth)]
    targets = head.targets(samples, torch.device("cpu"))
    logits = head(tokens)
    wanted = torch.stack(
        [F.cross_entropy(x, t) for x, t in zip(logits.flatten(0, 1), truth.flatten()) if t >= 0]
    ).mean()
    torch.testing.assert_close(head.loss(tokens, targets)["loss"], wanted)
    found: list[Any] = head.predict(tokens, samples)
    for answer, scores in zip(found, logits):
        assert torch.equal(answer.predicted.long(), scores.argmax(-1).view(2, 3))
    (row,) = found[1].rows(NAMES)
    assert list(row) == list(Cells.header(NAMES))
    assert row["cells"].replace(" / ", " ").split(" ") == [NAMES[k] for k in found[1].predicted.flatten().tolist()]


def test_labels_of_another_grid_and_of_no_class_are_errors(tokens):
    head = CellReader(4, 3)
    with pytest.raises(ValueError, match="one label per token, 6, got labels of 4 cells"):
        head.loss(tokens, torch.zeros(2, 4, dtype=torch.int64))
    with pytest.raises(DataError, match="has the label 3"):
        head.targets([dict(labels=torch.full((2, 3), 3), path="x")], torch.device("cpu"))


def test_without_labels_the_grid_is_that_of_the_tokens():
    torch.manual_seed(0)
    tokens = TokenSet(torch.randn(1, 16, 4), Where(torch.rand(1, 16, 2), grid=(2, 8)))
    answers: list[Any] = CellReader(4, 3).predict(tokens, [{}])
    assert answers[0].predicted.shape == (2, 8)


def answer(predicted, truth):
    kept = dict(path="x") | ({} if truth is None else dict(truth=torch.tensor(truth)))
    return Cells(sample=kept, predicted=torch.tensor(predicted), classes=3)


def test_one_wrong_cell_is_a_grid_that_is_not_solved():
    some = [
        answer([[0, 1], [2, 2]], [[0, 1], [2, 2]]),
        answer([[0, 1], [2, 1]], [[0, 1], [2, 2]]),
        answer([[0, 1], [2, 1]], [[0, 1], [2, -1]]),
    ]
    metric = SolveRate()
    metric.process(None, some)
    found = metric.compute_metrics(metric.results)
    assert found == dict(solve_rate=pytest.approx(2 / 3), cell_accuracy=pytest.approx(10 / 11))
    assert [one.verdict(NAMES, 0) for one in some] == ["solved", "75 % right", "solved"]
    assert some[1].mistakes(0) > some[0].mistakes(0)
    with pytest.raises(DataError, match="x has no true answer"):
        metric.process(None, [answer([[0]], None)])


def test_a_sheet_shows_the_answer_beside_the_input():
    pixels = np.zeros((28, 28, 3), np.uint8)
    shown = Cells.annotated(pixels, dict(labels=torch.tensor([[0, 1], [2, 2]])), NAMES, (28, 56))
    assert shown.size == (56, 28)
