"""Images for the stand-ins of classification: bright stroke figures among clutter of the same kind.

Color, brightness and position do not reveal a figure, only its shape does. Figures are always brighter than the
background: if half of them were darker, no weighted sum of pixels would detect a stroke, and a small transformer would
spend most of its training on that.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

Line = list[tuple[float, float]]  # corners (x, y) in -1..1, y downwards


def _arc(start: float, end: float, radius: float = 1.0, growth: float = 0.0, x: float = 0, y: float = 0) -> Line:
    """Return an arc from angle `start` to `end` in turns, whose radius grows by `growth`."""
    turns = np.linspace(0, 1, max(3, round(abs(end - start) * 14) + 1))
    angles = 2 * math.pi * (start + (end - start) * turns)
    radii = radius + growth * turns
    return list(zip((x + radii * np.cos(angles)).tolist(), (y + radii * np.sin(angles)).tolist()))


def _star() -> Line:
    corners = [(1.0 if i % 2 == 0 else 0.42, 2 * math.pi * (i / 10 - 0.25)) for i in range(11)]
    return [(r * math.cos(a), r * math.sin(a)) for r, a in corners]


FIGURES: dict[str, list[Line]] = {
    "ring": [_arc(0, 1, 0.9)],
    "square": [[(-0.8, -0.8), (0.8, -0.8), (0.8, 0.8), (-0.8, 0.8), (-0.8, -0.8)]],
    "triangle": [[(0, -0.95), (0.95, 0.75), (-0.95, 0.75), (0, -0.95)]],
    "star": [_star()],
    "cross": [[(0, -1), (0, 1)], [(-1, 0), (1, 0)]],
    "crescent": [_arc(0.12, 0.88, 0.9)],
    "zigzag": [[(-0.8, -0.85), (0.8, -0.85), (-0.8, 0.85), (0.8, 0.85)]],
    "tee": [[(-0.9, -0.85), (0.9, -0.85)], [(0, -0.85), (0, 1)]],
    "arrow": [[(-1, 0), (1, 0)], [(0.25, -0.75), (1, 0), (0.25, 0.75)]],
    "spiral": [_arc(0, 1.6, 0.12, 0.88)],
    "hourglass": [[(-0.75, -0.9), (0.75, -0.9), (-0.75, 0.9), (0.75, 0.9), (-0.75, -0.9)]],
    "fork": [[(-0.8, -0.9), (-0.8, 0), (0.8, 0), (0.8, -0.9)], [(0, -0.9), (0, 1)]],
}

DIGITS: dict[str, list[Line]] = {
    "0": [[(0.62 * x, y) for x, y in _arc(0, 1, 0.95)]],
    "1": [[(-0.4, -0.55), (0.1, -0.95), (0.1, 0.95)]],
    "2": [[*_arc(-0.5, 0.08, 0.5, y=-0.45), (-0.55, 0.95), (0.6, 0.95)]],
    "3": [_arc(-0.42, 0.25, 0.47, y=-0.47), _arc(-0.25, 0.42, 0.5, y=0.45)],
    "4": [[(0.3, 0.95), (0.3, -0.95), (-0.65, 0.35), (0.65, 0.35)]],
    "5": [[(0.55, -0.95), (-0.4, -0.95), (-0.45, -0.1), *_arc(-0.3, 0.4, 0.55, y=0.4)]],
    "6": [[(0.4, -0.9), (-0.2, -0.4), *_arc(-0.5, 0.5, 0.5, y=0.42)]],
    "7": [[(-0.6, -0.95), (0.6, -0.95), (-0.15, 0.95)]],
    "8": [_arc(0, 1, 0.43, y=-0.48), _arc(0, 1, 0.5, y=0.45)],
    "9": [[(0.5, -0.42), *_arc(0, 1, 0.48, y=-0.42), (0.35, 0.95)]],
}


def segments(figure: list[Line]) -> np.ndarray:
    """Return the two ends of each straight piece (S, 2, 2)."""
    return np.array([[a, b] for line in figure for a, b in zip(line, line[1:])], np.float32)


@dataclass
class Style:
    """How hard figures are to recognize. Lengths are in half image widths: 1 is from the middle to the edge."""

    scale: tuple[float, float] = (0.5, 0.7)
    shift: float = 0.3
    turn: float = 0.06  # in full turns, in both directions
    slant: float = 0.2
    stroke: tuple[float, float] = (0.07, 0.12)
    contrast: tuple[float, float] = (0.35, 0.7)
    clutter: int = 2
    texture: float = 0.12
    noise: float = 0.04


STYLE = Style()
HAND = Style(scale=(0.5, 0.68), shift=0.08, turn=0.03, slant=0.2, stroke=(0.06, 0.12))


def figures(labels: np.ndarray, shapes: list[list[Line]], size: int, rng: np.random.Generator) -> np.ndarray:
    """Draw images (N, size, size, 3) uint8: image i shows shapes[labels[i]] at a random place, among clutter."""

    def draw(lines: np.ndarray) -> np.ndarray:
        n = len(lines)
        image = background(n, size, STYLE, rng)  # (n, H, W, 3)
        around = image.mean((1, 2))  # (n, 3)
        for _ in range(STYLE.clutter):
            paint(image, stroke(clutter(n, rng), thickness(n, STYLE, rng), size), color(around, STYLE, rng))
        paint(image, stroke(place(lines, STYLE, rng), thickness(n, STYLE, rng), size), color(around, STYLE, rng))
        image += rng.standard_normal(image.shape, np.float32) * STYLE.noise
        return to_bytes(image)

    return _in_parts(draw, labels, shapes, size)


def handwriting(labels: np.ndarray, size: int, rng: np.random.Generator) -> np.ndarray:
    """Draw white digits on black, (N, size, size) uint8."""

    def draw(lines: np.ndarray) -> np.ndarray:
        return to_bytes(stroke(place(lines, HAND, rng), thickness(len(lines), HAND, rng), size))

    return _in_parts(draw, labels, list(DIGITS.values()), size)


def _in_parts(
    draw: Callable[[np.ndarray], np.ndarray], labels: np.ndarray, shapes: list[list[Line]], size: int
) -> np.ndarray:
    """Call draw(segments) for a part of the labels at a time, to limit memory."""
    pieces = [segments(shape) for shape in shapes]
    longest = max(map(len, pieces))
    padded = np.stack([np.concatenate([p, np.repeat(p[-1:], longest - len(p), 0)]) for p in pieces])  # (K, S, 2, 2)
    parts = np.array_split(labels, max(1, labels.size * size**2 // 2**19))
    return np.concatenate([draw(padded[part]) for part in parts])


def _uniform(rng: np.random.Generator, low: float, high: float, *shape: int) -> np.ndarray:
    return rng.uniform(low, high, shape).astype(np.float32)


def thickness(n: int, style: Style, rng: np.random.Generator) -> np.ndarray:
    return _uniform(rng, *style.stroke, n)


def place(shapes: np.ndarray, style: Style, rng: np.random.Generator) -> np.ndarray:
    """Randomly turn, slant, stretch and move the segments (n, S, 2, 2) of each image."""
    n = len(shapes)
    angle = 2 * math.pi * _uniform(rng, -style.turn, style.turn, n)
    slant = _uniform(rng, -style.slant, style.slant, n)
    cos, sin = np.cos(angle), np.sin(angle)
    turn = np.stack([cos, slant * cos - sin, sin, slant * sin + cos], -1).reshape(n, 2, 2)
    turn *= _uniform(rng, *style.scale, n, 1, 1) * np.exp(_uniform(rng, -0.12, 0.12, n, 2, 1))
    return np.einsum("nij,nsej->nsei", turn, shapes) + _uniform(rng, -style.shift, style.shift, n, 1, 1, 2)


def clutter(n: int, rng: np.random.Generator) -> np.ndarray:
    """Return a random short straight piece for each image, (n, 1, 2, 2)."""
    middle, angle = _uniform(rng, -1, 1, n, 2), _uniform(rng, 0, math.pi, n)
    arm = _uniform(rng, 0.15, 0.45, n, 1) * np.stack([np.cos(angle), np.sin(angle)], -1)
    return np.stack([middle - arm, middle + arm], 1)[:, None]


def background(n: int, size: int, style: Style, rng: np.random.Generator) -> np.ndarray:
    """Draw smooth random backgrounds of a few colors, (n, size, size, 3)."""
    cells = 4
    corners = rng.uniform(0.05, 0.55, (n, 1, 1, 3)) + rng.normal(0, style.texture, (n, cells, cells, 3))
    places = np.linspace(0, cells - 1, size)
    weights = np.maximum(0, 1 - np.abs(places[:, None] - np.arange(cells)))  # (size, cells) linear interpolation
    return np.einsum("yi,xj,nijc->nyxc", weights, weights, corners, optimize=True).astype(np.float32)


def color(around: np.ndarray, style: Style, rng: np.random.Generator) -> np.ndarray:
    """Return random colors (n, 3) that stand out from their surroundings."""
    step = rng.uniform(*style.contrast, (len(around), 1)) + rng.normal(0, 0.12, (len(around), 3))
    return (around + step).clip(0, 1).astype(np.float32)


def stroke(lines: np.ndarray, width: np.ndarray, size: int) -> np.ndarray:
    """Return the coverage (n, size, size), 0..1, of pixels by lines (n, S, 2, 2) of half `width` (n,)."""
    pixels = ((np.arange(size, dtype=np.float32) + 0.5) / size * 2 - 1).astype(np.float32)
    nearest = np.full((len(lines), size, size), np.inf, np.float32)
    for s in range(lines.shape[1]):
        (ax, ay), (bx, by) = ((lines[:, s, e, 0, None, None], lines[:, s, e, 1, None, None]) for e in range(2))
        dx, dy = bx - ax, by - ay
        px, py = pixels[None, None, :] - ax, pixels[None, :, None] - ay
        along = ((px * dx + py * dy) / np.maximum(dx * dx + dy * dy, 1e-9)).clip(0, 1)
        np.minimum(nearest, (px - along * dx) ** 2 + (py - along * dy) ** 2, out=nearest)
    return ((width[:, None, None] - np.sqrt(nearest)) * size / 2 + 0.5).clip(0, 1)


def paint(image: np.ndarray, cover: np.ndarray, color: np.ndarray) -> None:
    image += cover[..., None] * (color[:, None, None, :] - image)


def to_bytes(image: np.ndarray) -> np.ndarray:
    return (image.clip(0, 1) * 255).round().astype(np.uint8)
