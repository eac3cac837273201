"""Pictures of samples with a class for every pixel: the picture, what is there, what was predicted."""

from __future__ import annotations

import colorsys
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ndformer.framework.pictures.cards import EDGE, INK, LINE, fitted, font, shortened

SIDE = 320  # of each picture


def colours(count: int) -> np.ndarray:
    """(count + 1, 3) uint8, each class its own; the last is grey, for what nobody knows."""
    turns = np.arange(count) * 0.381966 % 1  # the golden section: neighbours are far apart
    rows = [colorsys.hsv_to_rgb(float(turn), 0.75 if i % 2 else 0.5, 0.95) for i, turn in enumerate(turns)]
    return (np.array([*rows, (0.4, 0.4, 0.4)]) * 255).astype(np.uint8)


def painted(labels: np.ndarray, count: int) -> np.ndarray:
    """(H, W, 3) uint8 of (H, W) classes; what is no class is grey."""
    return colours(count)[np.where((labels >= 0) & (labels < count), labels, count)]


def over(pixels: np.ndarray, labels: np.ndarray, count: int) -> np.ndarray:
    """A picture with its classes shining through; what nobody knows stays as it is."""
    mixed = (0.45 * pixels + 0.55 * painted(labels, count)).astype(np.uint8)
    return np.where(((labels >= 0) & (labels < count))[..., None], mixed, pixels)


def show(
    folder: Path,
    predictions: Sequence[dict[str, Any]],
    classes: list[str],
    picture_of: Callable[[int], np.ndarray],
    count: int,
) -> None:
    """A card each, at most `count`, those with the smallest share of right pixels first: 000_54-right_NAME.png"""
    folder.mkdir(parents=True, exist_ok=True)
    right = [_right(one) for one in predictions]
    for place, i in enumerate(sorted(range(len(right)), key=lambda i: right[i])[:count]):
        name = str(predictions[i].get("path", ""))
        says = f"{100 * right[i]:.0f} % right" if "truth" in predictions[i] else "predicted"
        file = re.sub(r"[^\w.-]+", "-", f"{place:03}_{says}_{Path(name).stem or i}"[:120]).rstrip("-.")
        card(predictions[i], picture_of(i), classes, says, name).save(folder / f"{file}.png")


def _right(one: dict[str, Any]) -> float:
    if "truth" not in one:
        return 0.0
    truth, predicted = np.asarray(one["truth"]), np.asarray(one["predicted"])
    return float((truth == predicted)[truth >= 0].mean()) if (truth >= 0).any() else 1.0


def card(one: dict[str, Any], pixels: np.ndarray, classes: list[str], says: str, name: str) -> Any:
    """What the model was given, the truth where it is known, the prediction; below them the colours' names."""
    from PIL import Image, ImageDraw

    predicted, count = np.asarray(one["predicted"]), len(classes)
    masks = [*([np.asarray(one["truth"])] if "truth" in one else []), predicted]
    parts = [fitted(part, SIDE, SIDE) for part in (pixels, *(painted(mask, count) for mask in masks))]
    there = [k for k in range(count) if any((mask == k).any() for mask in masks)][:24]
    wide = sum(part.width for part in parts) + (len(parts) + 1) * EDGE
    across = max(1, (wide - EDGE) // 130)
    rows = -(-len(there) // across)
    high = max(part.height for part in parts)
    sheet = Image.new("RGB", (wide, high + (rows + 2) * LINE + 3 * EDGE), "white")
    pen, left = ImageDraw.Draw(sheet), EDGE
    pen.text((EDGE, EDGE - 4), shortened(f"{says}   {name}", wide - 2 * EDGE, 12), fill=INK, font=font(12))
    for part in parts:
        sheet.paste(part, (left, EDGE + LINE))
        left += part.width + EDGE
    for place, k in enumerate(there):
        x, y = EDGE + place % across * 130, high + 2 * EDGE + LINE + place // across * LINE
        pen.rectangle((x, y + 2, x + 12, y + 14), fill=tuple(colours(count)[k].tolist()))
        pen.text((x + 18, y), shortened(classes[k], 104, 11), fill=INK, font=font(11))
    return sheet
