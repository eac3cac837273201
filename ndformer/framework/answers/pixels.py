"""Answers with a class for every pixel of an image, cell of a small grid (ARC) or point of a cloud."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ndformer.framework.answer import UNFIT, Answer, Source
from ndformer.framework.pictures.cards import EDGE, INK, LINE, class_colors, font, resize_to_fit, shortened
from ndformer.framework.registry import ANSWERS

SIDE = 320  # pixels of each picture


@ANSWERS.register_module()
@dataclass(kw_only=True, eq=False, repr=False)
class Pixels(Answer):
    """The predicted class of every pixel of one image."""

    metric = "MeanIoU"
    legend = "file, classes with their shares of the pixels"

    # tensor or array (H, W) of classes; at the size of the image on disk if the sample has a `frame`
    predicted: Any
    classes: int

    @property
    def truth(self) -> Any:
        """Return the true classes in the shape of `predicted`, negative where unknown; None without truth."""
        return self.sample.get("truth")

    @property
    def right(self) -> float:
        """Return the share of correct pixels among those with a known class."""
        if self.truth is None:
            return 0.0
        truth, predicted = np.asarray(self.truth), np.asarray(self.predicted)
        return float((truth == predicted)[truth >= 0].mean()) if (truth >= 0).any() else 1.0

    def _shares(self, classes: Sequence[str]) -> Tensor:
        """Return (classes,): the share of pixels predicted as each class."""
        labels = torch.as_tensor(self.predicted).flatten().long()
        return labels.bincount(minlength=len(classes)) / max(1, len(labels))

    def rows(self, classes: Sequence[str]) -> list[dict[str, Any]]:
        names = self.names(classes)
        shares = zip(map(_column, names), self._shares(names).tolist())
        return [dict(path=self.path) | {name: round(share, 6) for name, share in shares}]

    @classmethod
    def header(cls, classes: Sequence[str]) -> Sequence[str]:
        return ["path", *map(_column, classes)]

    def words(self, classes: Sequence[str], top: int, min_score: float) -> str:
        names = self.names(classes)
        share, which = self._shares(names).topk(min(top, len(names)))
        return "  ".join(f"{names[i]} {100 * p:.0f} %" for p, i in zip(share.tolist(), which.tolist()) if p > 0)

    def mistakes(self, min_score: float) -> float:
        return -self.right

    def verdict(self, classes: Sequence[str], min_score: float) -> str:
        return "predicted" if self.truth is None else f"{100 * self.right:.0f} % right"

    def card(self, pixels: np.ndarray, classes: Sequence[str], min_score: float) -> Any:
        """Return a PIL image: the input, the masks (truth and prediction), and a legend of class colors."""
        from PIL import Image, ImageDraw

        classes = self.names(classes)
        count, title = len(classes), f"{self.verdict(classes, min_score)}   {self.path}"
        masks = [np.asarray(mask) for mask in (self.truth, self.predicted) if mask is not None]
        parts = [resize_to_fit(part, SIDE, SIDE) for part in (pixels, *(painted(mask, count) for mask in masks))]
        present = [k for k in range(count) if any((mask == k).any() for mask in masks)][:24]
        wide = sum(part.width for part in parts) + (len(parts) + 1) * EDGE
        across = max(1, (wide - EDGE) // 130)
        rows = -(-len(present) // across)
        high = max(part.height for part in parts)
        sheet = Image.new("RGB", (wide, high + (rows + 2) * LINE + 3 * EDGE), "white")
        pen, left = ImageDraw.Draw(sheet), EDGE
        pen.text((EDGE, EDGE - 4), shortened(title, wide - 2 * EDGE, 12), fill=INK, font=font(12))
        for part in parts:
            sheet.paste(part, (left, EDGE + LINE))
            left += part.width + EDGE
        for place, k in enumerate(present):
            x, y = EDGE + place % across * 130, high + 2 * EDGE + LINE + place // across * LINE
            pen.rectangle((x, y + 2, x + 12, y + 14), fill=tuple(colors(count)[k].tolist()))
            pen.text((x + 18, y), shortened(classes[k], 104, 11), fill=INK, font=font(11))
        return sheet

    @classmethod
    def annotated(
        cls, pixels: np.ndarray, truth: Mapping[str, Any], classes: Sequence[str], size: tuple[int, int]
    ) -> Any:
        return resize_to_fit(over(pixels, np.asarray(truth["mask"]), len(classes)), *size)


def _column(name: str) -> str:
    return "class path" if name == "path" else name


def colors(count: int) -> np.ndarray:
    """Return (count + 1, 3) uint8 colors; the last one is gray, for unknown classes."""
    return np.concatenate([class_colors(count), np.full((1, 3), 102, np.uint8)])


def painted(labels: np.ndarray, count: int) -> np.ndarray:
    """Return (H, W, 3) uint8 colors of (H, W) classes; labels outside 0..count-1 are gray."""
    return colors(count)[np.where((labels >= 0) & (labels < count), labels, count)]


def over(pixels: np.ndarray, labels: np.ndarray, count: int) -> np.ndarray:
    """Overlay class colors on a picture; pixels with unknown class stay unchanged."""
    mixed = (0.45 * pixels + 0.55 * painted(labels, count)).astype(np.uint8)
    return np.where(((labels >= 0) & (labels < count))[..., None], mixed, pixels)


@ANSWERS.register_module()
@dataclass(kw_only=True, eq=False, repr=False)
class Cells(Pixels):
    """The classes `predicted` (h, w) of a grid, right only if all are; the sample has the `truth` (h, w) if known."""

    metric = "SolveRate"
    columns = ("path", "solved", "cells")
    legend = "file, rows of the grid"

    def rows(self, classes: Sequence[str]) -> list[dict[str, Any]]:
        solved = "" if self.truth is None else self.right == 1
        return [dict(path=self.path, solved=solved, cells=self.words(classes, 0, 0.0))]

    @classmethod
    def header(cls, classes: Sequence[str]) -> Sequence[str]:
        return cls.columns

    def words(self, classes: Sequence[str], top: int, min_score: float) -> str:
        """Return the rows of the grid in one line, separated by slashes."""
        names = self.names(classes)
        rows = [[names[k] for k in row] for row in np.asarray(self.predicted).tolist()]
        return " / ".join(" ".join(row) for row in rows)

    def verdict(self, classes: Sequence[str], min_score: float) -> str:
        return (
            "predicted" if self.truth is None else "solved" if self.right == 1 else super().verdict(classes, min_score)
        )

    @classmethod
    def annotated(
        cls, pixels: np.ndarray, truth: Mapping[str, Any], classes: Sequence[str], size: tuple[int, int]
    ) -> Any:
        """Return the input and the true answer side by side."""
        answer = painted(np.asarray(truth["labels"]), len(classes))
        answer = np.asarray(resize_to_fit(answer, *pixels.shape[:2]))
        return resize_to_fit(np.concatenate([pixels, answer], axis=1) if len(answer) == len(pixels) else pixels, *size)


@ANSWERS.register_module()
@dataclass(kw_only=True, eq=False, repr=False)
class Points(Pixels):
    """The classes `predicted` (N,) of points; the sample has the `truth` (N,) if it is known."""

    legend = "file, classes with their shares of the points"
    tile = 128

    def mistakes(self, min_score: float) -> float:
        return -1.0 if self.truth is None else -self.right

    @classmethod
    def annotated(
        cls, pixels: np.ndarray, truth: Mapping[str, Any], classes: Sequence[str], size: tuple[int, int]
    ) -> Any:
        return resize_to_fit(pixels, *size)

    def save(self, folder: Path, place: int, i: int, source: Source, classes: Sequence[str], min_score: float) -> None:
        """Write 000_NAME.png, 000_NAME_error.ply, ... with the dataset's pack; without truth, without a number."""
        name = re.sub(UNFIT, "-", Path(self.path).name or str(i))
        name = Path(self.path).stem if self.truth is None else f"{place:03}_{name}"
        source.write_labeled(folder / name, i, np.asarray(self.predicted).astype(np.int64))
