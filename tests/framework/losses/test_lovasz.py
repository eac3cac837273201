"""Lovasz-Softmax against its definition, class by class and point by point."""

import pytest
import torch

from ndformer.framework.losses.lovasz import lovasz_softmax


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
