"""Images for the stand-in of COCO: several overlapping figures, large and small, among clutter.

The figures of CLASSES are annotated; DISTRACTORS are similar figures without annotation.
"""

from dataclasses import dataclass

import numpy as np

from ndformer.modalities.image.stand_ins import strokes
from ndformer.modalities.image.stand_ins.strokes import FIGURES, STYLE, Style

CLASSES = ("ring", "triangle", "cross", "star", "zigzag", "tee")
DISTRACTORS = ("square", "crescent", "arrow", "hourglass")
SMALLEST, LARGEST = 14, 56  # side of the square that a figure is drawn in, in pixels
OVERLAP = 0.25  # maximum share of the smaller of two squares
TIGHT = Style(scale=(0.72, 0.86), shift=0.05, turn=0.06, slant=0.15, stroke=(0.1, 0.16))
COVERED = 0.3  # coverage from which a pixel belongs to a figure


@dataclass(frozen=True, eq=False)
class Drawing:
    """A generated image and its annotation."""

    image: np.ndarray  # (H, W, 3) uint8
    boxes: np.ndarray  # (G, 4) x1 y1 x2 y2
    labels: np.ndarray  # (G,)
    area: np.ndarray  # (G,) number of pixels of each figure
    crowd: np.ndarray  # (G,) bool


def draw_image(height: int, width: int, rng: np.random.Generator, max_figures: int = 5) -> Drawing:
    """Draw up to `max_figures` figures, sometimes none, sometimes a crowd of small ones with one box."""
    side = max(height, width)
    image = strokes.background(1, side, STYLE, rng)[:, :height, :width].copy()  # (1, H, W, 3)
    pen = _Pen(image, rng)
    for _ in range(int(rng.integers(2, 6))):
        pen.line()
    for _ in range(int(rng.integers(0, 3))):
        pen.figure(DISTRACTORS[int(rng.integers(len(DISTRACTORS)))])
    rows: list[tuple[np.ndarray, int, float, bool]] = []
    if rng.random() < 0.05:
        label = int(rng.integers(len(CLASSES)))
        crowd_figures = [f for _ in range(6) if (f := pen.figure(CLASSES[label], max_side=22)) is not None]
        if crowd_figures:
            boxes = np.stack([box for box, _ in crowd_figures])
            around = np.concatenate([boxes[:, :2].min(0), boxes[:, 2:].max(0)])
            rows.append((around, label, sum(area for _, area in crowd_figures), True))
    for _ in range(int(rng.integers(0, max_figures + 1))):
        label = int(rng.integers(len(CLASSES)))
        figure = pen.figure(CLASSES[label])
        if figure is not None:
            rows.append((figure[0], label, figure[1], False))
    image += rng.standard_normal(image.shape, np.float32) * STYLE.noise
    boxes = np.array([row[0] for row in rows], dtype=np.float64).reshape(-1, 4)
    labels, area, crowd = ([row[k] for row in rows] for k in (1, 2, 3))
    return Drawing(
        strokes.to_bytes(image[0]), boxes, np.array(labels, np.int64), np.array(area, np.float64), np.array(crowd, bool)
    )


class _Pen:
    """Draws on one image (1, H, W, 3), and records the squares that are used."""

    def __init__(self, image: np.ndarray, rng: np.random.Generator) -> None:
        self.image, self.rng = image, rng
        self.squares: list[tuple[int, int, int]] = []  # left, top, side

    def line(self) -> None:
        side = int(self.rng.integers(SMALLEST, LARGEST + 1))
        room = [length - side for length in self.image.shape[1:3]]
        top, left = (int(self.rng.integers(max(0, r) + 1)) for r in room)
        self._paint(strokes.clutter(1, self.rng), strokes.thickness(1, STYLE, self.rng), top, left, side)

    def figure(self, name: str, max_side: int = LARGEST) -> tuple[np.ndarray, float] | None:
        """Draw a figure and return the box of its pixels and their number, or None without a free place."""
        height, width = self.image.shape[1:3]
        for _ in range(20):
            max_side = min(max_side, height, width)
            side = round(float(np.exp(self.rng.uniform(np.log(SMALLEST), np.log(max_side)))))
            top, left = int(self.rng.integers(height - side + 1)), int(self.rng.integers(width - side + 1))
            if all(_compute_overlap((left, top, side), square) <= OVERLAP for square in self.squares):
                break
        else:
            return None
        self.squares.append((left, top, side))
        lines = strokes.place(strokes.segments(FIGURES[name])[None], TIGHT, self.rng)
        cover = self._paint(lines, strokes.thickness(1, TIGHT, self.rng), top, left, side)
        rows, columns = np.nonzero(cover > COVERED)
        box = np.array([left + columns.min(), top + rows.min(), left + columns.max() + 1, top + rows.max() + 1])
        return box.astype(np.float64), float(len(rows))

    def _paint(self, lines: np.ndarray, width: np.ndarray, top: int, left: int, side: int) -> np.ndarray:
        """Paint lines into a square and return their coverage of each pixel (side, side)."""
        region = self.image[:, top : top + side, left : left + side]
        cover = strokes.stroke(lines, width, side)
        bright = strokes.color(region.mean((1, 2)), STYLE, self.rng)
        strokes.paint(region, cover[:, : region.shape[1], : region.shape[2]], bright)
        return cover[0]


def _compute_overlap(a: tuple[int, int, int], b: tuple[int, int, int]) -> float:
    """Return the overlap of two squares as a share of the smaller one."""
    both = [max(0, min(a[k] + a[2], b[k] + b[2]) - max(a[k], b[k])) for k in (0, 1)]
    return both[0] * both[1] / min(a[2], b[2]) ** 2
