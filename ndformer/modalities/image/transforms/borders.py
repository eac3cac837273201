"""Boxes and the borders of their image."""

from __future__ import annotations

from typing import Any

import numpy as np


def inside(boxes: np.ndarray, labels: np.ndarray, width: int, height: int, least: float = 1.0) -> dict[str, Any]:
    """Boxes cut off at the borders of an image, and their labels, without those of which less than `least` is left."""
    boxes = boxes.clip(0, [width, height, width, height])
    keep = (boxes[:, 2:] - boxes[:, :2] >= least).all(1)
    return dict(boxes=boxes[keep], labels=labels[keep])
