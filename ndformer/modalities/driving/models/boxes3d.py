"""Overlap of 3-D boxes with yaw: rotated bird's-eye-view (BEV) IoU, 3-D IoU, axis-aligned DIoU and rotated NMS.

A box is x, y, z of its center, width, length, height, yaw; its length is along its heading.
"""

import torch
from torch import Tensor

EPS = 1e-9


def corners(boxes: Tensor, center: Tensor) -> Tensor:
    """Return the BEV corners (..., 4, 2) of boxes (..., 7) moved to `center` (..., 2), counterclockwise."""
    width, length, _, yaw = boxes[..., 3:7].unbind(-1)
    ahead = torch.stack([yaw.cos(), yaw.sin()], -1) * length[..., None] / 2
    left = torch.stack([-yaw.sin(), yaw.cos()], -1) * width[..., None] / 2
    return torch.stack([center + ahead + left, center - ahead + left, center - ahead - left, center + ahead - left], -2)


def common_area(a: Tensor, b: Tensor) -> Tensor:
    """Return the BEV intersection area (...,) of boxes (..., 7).

    The corners of the intersection are the corners of each box inside the other and the intersections of their sides,
    at most 24. They are sorted by angle around their mean, which is inside because the intersection is convex.
    """
    offset = a[..., :2] - b[..., :2]  # before corners are rounded: far from the origin, float32 misjudges shared sides
    p, q = corners(a, offset), corners(b, torch.zeros_like(offset))  # (..., 4, 2)
    crossings, valid = _side_intersections(p, q)  # (..., 16, 2), (..., 16)
    points = torch.cat([p, q, crossings], -2)  # (..., 24, 2)
    # sides on one line intersect anywhere on it by rounding, also outside of the other box
    valid &= _within(crossings, q, 100) & _within(crossings, p, 100)
    mask = torch.cat([_within(p, q), _within(q, p), valid], -1)  # (..., 24)
    count = mask.sum(-1, keepdim=True).clamp(min=1)
    points = torch.where(mask[..., None], points, 0.0)
    points = points - points.sum(-2, keepdim=True) / count[..., None]
    angle = torch.atan2(points[..., 1], points[..., 0]).masked_fill(~mask, torch.inf)
    order = angle.argsort(-1)
    points = points.gather(-2, order[..., None].expand_as(points))
    mask = mask.gather(-1, order)
    points = torch.where(mask[..., None], points, points[..., :1, :])  # repeated corners add no area
    x, y = points.unbind(-1)
    area = (x * y.roll(-1, -1) - y * x.roll(-1, -1)).sum(-1).abs() / 2
    return torch.where(mask.sum(-1) > 2, area, 0.0)


def _within(points: Tensor, box: Tensor, tolerance: float = 1) -> Tensor:
    """Return which points (..., n, 2) are inside or on the border of the box with corners (..., 4, 2)."""
    first, along, across = box[..., :1, :], box[..., 1:2, :] - box[..., :1, :], box[..., 3:, :] - box[..., :1, :]
    share = [((points - first) * side).sum(-1) / side.square().sum(-1).clamp(min=EPS) for side in (along, across)]
    slack = tolerance * (1e-6 if points.dtype == torch.float32 else 1e-12)
    return torch.stack([(s >= -slack) & (s <= 1 + slack) for s in share]).all(0)


def _side_intersections(p: Tensor, q: Tensor) -> tuple[Tensor, Tensor]:
    """Return the intersections (..., 16, 2) of the sides of two boxes, and which of them exist (..., 16)."""
    start, side = p[..., :, None, :], (p.roll(-1, -2) - p)[..., :, None, :]
    other, edge = q[..., None, :, :], (q.roll(-1, -2) - q)[..., None, :, :]
    cross = side[..., 0] * edge[..., 1] - side[..., 1] * edge[..., 0]  # (..., 4, 4), 0 where they are parallel
    sizes = side.square().sum(-1) * edge.square().sum(-1)
    flat = cross.square() <= (1e-14 if p.dtype == torch.float32 else 1e-24) * sizes
    by = torch.where(flat, 1.0, cross)
    gap = other - start
    s = (gap[..., 0] * edge[..., 1] - gap[..., 1] * edge[..., 0]) / by
    t = (gap[..., 0] * side[..., 1] - gap[..., 1] * side[..., 0]) / by
    valid = ~flat & (s >= 0) & (s <= 1) & (t >= 0) & (t <= 1)
    return (start + s[..., None] * side).flatten(-3, -2), valid.flatten(-2)


def iou_above(a: Tensor, b: Tensor) -> Tensor:
    """Return the BEV IoU (...,) of boxes (..., 7)."""
    common = common_area(a, b)
    return common / (a[..., 3] * a[..., 4] + b[..., 3] * b[..., 4] - common).clamp(min=EPS)


def iou_3d(a: Tensor, b: Tensor) -> Tensor:
    """Return the 3-D IoU (...,) of boxes (..., 7)."""
    high = torch.minimum(a[..., 2] + a[..., 5] / 2, b[..., 2] + b[..., 5] / 2)
    low = torch.maximum(a[..., 2] - a[..., 5] / 2, b[..., 2] - b[..., 5] / 2)
    common = common_area(a, b) * (high - low).clamp(min=0)
    return common / (a[..., 3:6].prod(-1) + b[..., 3:6].prod(-1) - common).clamp(min=EPS)


def distance_iou(a: Tensor, b: Tensor) -> Tensor:
    """Return the axis-aligned 3-D DIoU (...,) of boxes (..., 7), ignoring yaw: length is along x (as in UniTR)."""
    size_a, size_b = (box[..., [4, 3, 5]] for box in (a, b))
    low_a, high_a = a[..., :3] - size_a / 2, a[..., :3] + size_a / 2
    low_b, high_b = b[..., :3] - size_b / 2, b[..., :3] + size_b / 2
    common = (torch.minimum(high_a, high_b) - torch.maximum(low_a, low_b)).clamp(min=0).prod(-1)
    iou = common / (size_a.prod(-1) + size_b.prod(-1) - common).clamp(min=EPS)
    around = (torch.maximum(high_a, high_b) - torch.minimum(low_a, low_b)).square().sum(-1)
    return iou - (a[..., :3] - b[..., :3]).square().sum(-1) / around.clamp(min=EPS)


def rotated_nms(boxes: Tensor, scores: Tensor, limit: float) -> Tensor:
    """Return (N,) True for boxes (N, 7) that remain after NMS with the BEV IoU threshold `limit`."""
    order = scores.argsort(descending=True, stable=True)
    row, column = boxes[order, None].expand(-1, len(boxes), -1), boxes[order][None].expand(len(boxes), -1, -1)
    over = (iou_above(row, column) > limit).cpu()
    keep = torch.ones(len(boxes), dtype=torch.bool)
    for i in range(len(boxes)):
        if keep[i]:
            keep[i + 1 :] &= ~over[i, i + 1 :]
    out = torch.empty_like(keep)
    out[order.cpu()] = keep
    return out.to(boxes.device)
