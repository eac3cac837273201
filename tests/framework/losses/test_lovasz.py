"""Lovasz-Softmax against its definition, class by class and point by point."""

from typing import Any

import pytest
import torch
from torch import Tensor

from ndformer.framework.heads.classifier import Classifier
from ndformer.framework.losses.labels import label_loss, lovasz_softmax
from ndformer.framework.system import processes
from ndformer.framework.tokens import TokenSet, Where
from tests.spawned import spawned

SIZES = [5, 0, 8]  # points of each process


def direct(probabilities, labels):
    """Of the known points: errors sorted downwards, each times what it adds to 1 - IoU of those so far wrong."""
    points = [(p.tolist(), int(y)) for p, y in zip(probabilities, labels) if y >= 0]
    losses = []
    for c in sorted({y for _, y in points}):
        errors = sorted(((1 - p[c] if y == c else p[c]), y == c) for p, y in points)[::-1]
        total, missed, added, before, loss = sum(own for _, own in errors), 0, 0, 0.0, 0.0
        for error, own in errors:
            missed, added = missed + own, added + (not own)
            jaccard = 1 - (total - missed) / (total + added)
            loss, before = loss + error * (jaccard - before), jaccard
        losses.append(loss)
    return sum(losses) / len(losses)


@pytest.mark.parametrize("unknown", [0.0, 0.3, 0.95])
def test_it_is_the_sum_of_sorted_errors_over_known_points(unknown: float) -> None:
    g = torch.Generator().manual_seed(1)
    for points in (1, 2, 7, 40):
        logits = torch.randn(points, 4, dtype=torch.float64, generator=g).requires_grad_()
        labels = torch.randint(4, (points,), generator=g)
        labels[1:][torch.rand(points - 1, generator=g) < unknown] = -1
        loss = lovasz_softmax(logits.softmax(-1), labels)
        assert abs(loss.item() - direct(logits.softmax(-1), labels)) < 1e-12
        (grad,) = torch.autograd.grad(loss, logits)
        known = logits.detach()[labels >= 0].requires_grad_()
        (alone,) = torch.autograd.grad(lovasz_softmax(known.softmax(-1), labels[labels >= 0]), known)
        torch.testing.assert_close(grad[labels >= 0], alone, rtol=0, atol=1e-12)
        assert not grad[labels < 0].any()


def losses_and_gradients() -> dict[str, tuple[Tensor, Tensor]]:
    """Return the mean over processes of a loss and its gradient, for points that are distributed as SIZES says."""
    torch.manual_seed(0)
    x, labels = torch.randn(sum(SIZES), 1, 6), torch.randint(-1, 4, (sum(SIZES),))
    head = Classifier(6, 4, pool="mean", lovasz=0.7)
    torch.nn.init.normal_(head.linear.weight)
    if processes.is_distributed():
        x, labels = (value.split(SIZES)[processes.rank()] for value in (x, labels))
    tokens = TokenSet(x, Where(torch.zeros(len(x), 1, 2)))
    losses: dict[str, Any] = {}
    for name in ("points", "samples"):
        if name == "points":
            loss = label_loss(head(tokens), labels, 0.7)["loss"]
        else:
            loss = head.loss(tokens, torch.nn.functional.one_hot(labels.clamp(min=0), 4).float())["loss"]
        (gradient,) = torch.autograd.grad(loss, head.linear.weight)
        losses[name] = processes.mean(loss.detach()), processes.mean(gradient)
    return losses


def test_loss_and_gradients_of_processes_with_uneven_numbers_of_points_are_those_of_one() -> None:
    for several in spawned(len(SIZES), losses_and_gradients):
        torch.testing.assert_close(several, losses_and_gradients(), rtol=0, atol=1e-5)
