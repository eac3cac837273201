"""Box losses against their formulas, one box at a time in plain numbers."""

import math

import torch

from ndformer.framework.losses.boxes import complete_iou, distribution_focal


def boxes(count, seed):
    g = torch.Generator().manual_seed(seed)
    low = torch.rand(count, 2, generator=g, dtype=torch.float64) * 20
    return torch.cat([low, low + 0.5 + torch.rand(count, 2, generator=g, dtype=torch.float64) * 20], 1)


def slow_ciou(a, b, at=None):
    """Complete IoU of a and b; `at` is the box that sets the weight of the shapes (a)."""
    eps = 1e-7

    def iou_and_shapes(a):
        wa, ha, wb, hb = a[2] - a[0], a[3] - a[1] + eps, b[2] - b[0], b[3] - b[1] + eps
        inter = max(0.0, min(a[2], b[2]) - max(a[0], b[0])) * max(0.0, min(a[3], b[3]) - max(a[1], b[1]))
        return inter / (wa * ha + wb * hb - inter + eps), 4 / math.pi**2 * (
            math.atan(wb / hb) - math.atan(wa / ha)
        ) ** 2

    iou, v = iou_and_shapes(a)
    weight_iou, weight_v = iou_and_shapes(a if at is None else at)
    c2 = (max(a[2], b[2]) - min(a[0], b[0])) ** 2 + (max(a[3], b[3]) - min(a[1], b[1])) ** 2 + eps
    rho2 = ((a[0] + a[2] - b[0] - b[2]) ** 2 + (a[1] + a[3] - b[1] - b[3]) ** 2) / 4
    return iou - rho2 / c2 - v * weight_v / (weight_v - weight_iou + 1 + eps)


def test_complete_iou_is_its_formula():
    a, b = boxes(60, 0), boxes(60, 1)
    b[0] = a[0]
    expected = torch.tensor([slow_ciou(x, y) for x, y in zip(a.tolist(), b.tolist())], dtype=torch.float64)
    torch.testing.assert_close(complete_iou(a, b), expected, rtol=0, atol=1e-12)


def test_complete_iou_pulls_boxes_that_do_not_touch():
    a = torch.tensor([[0.0, 0, 2, 2]], dtype=torch.float64, requires_grad=True)
    b = torch.tensor([[10.0, 0, 12, 2]], dtype=torch.float64)
    complete_iou(a, b).sum().backward()
    assert a.grad is not None
    assert a.grad[0, 0] + a.grad[0, 2] > 0


def test_gradients_of_complete_iou_leave_the_weight_of_shapes_out():
    a, b = boxes(20, 2), boxes(20, 3)

    x = a.clone().requires_grad_()
    (got,) = torch.autograd.grad(complete_iou(x, b).sum(), x)
    step = 1e-6
    numeric = torch.zeros_like(a)
    for i in range(4):
        d = torch.zeros(4, dtype=torch.float64)
        d[i] = step
        for sign in (1, -1):
            p = a + sign * d
            values = [slow_ciou(*boxes) for boxes in zip(p.tolist(), b.tolist(), a.tolist())]
            numeric[:, i] += sign * torch.tensor(values, dtype=torch.float64) / (2 * step)
    torch.testing.assert_close(got, numeric, rtol=1e-5, atol=1e-8)


def test_distances_are_distributions_over_the_two_nearest_whole_numbers():
    g = torch.Generator().manual_seed(0)
    logits = torch.randn(7, 16, generator=g, dtype=torch.float64)
    distance = torch.tensor([0.0, 0.3, 7.0, 14.5, 14.99, 17.0, -1.0], dtype=torch.float64)
    expected = []
    for row, y in zip(logits.tolist(), distance.clamp(0, 14.99).tolist()):
        norm = math.log(sum(map(math.exp, row)))
        low = int(y)
        expected.append((norm - row[low]) * (low + 1 - y) + (norm - row[low + 1]) * (y - low))
    got = distribution_focal(logits, distance)
    torch.testing.assert_close(got, torch.tensor(expected, dtype=torch.float64), rtol=0, atol=1e-12)
    assert torch.autograd.gradcheck(lambda x: distribution_focal(x, distance), logits.requires_grad_())


def test_nothing_is_nothing():
    assert complete_iou(torch.zeros(0, 4), torch.zeros(0, 4)).shape == (0,)
