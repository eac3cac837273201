"""Animation for the stand-in of DvsGesture: two hands on forearms that move as in the eleven gestures.

Seen from the front, the right hand is on the left. Positions are in pixels of 128 x 128. Wave, circle and reversed
circle cover the same ring at the same mean pace, and so do clap, drums and roll with both hands. So the place of motion
does not reveal the gesture.
"""

from collections.abc import Callable

import numpy as np

SIDE = 128
TURN = 2 * np.pi
Path = np.ndarray  # (T, 2): x, y of a hand
Hands = tuple[Path, Path]  # right, left
Motion = Callable[[np.ndarray, np.random.Generator], Hands]  # of phases (T,)


def points(x: float | np.ndarray, y: float | np.ndarray, phase: np.ndarray) -> Path:
    return np.stack(np.broadcast_arrays(x, y, phase)[:2], 1).astype(np.float64)


def mirrored(hands: Hands) -> Hands:
    return tuple(path * (-1, 1) + (SIDE, 0) for path in reversed(hands))  # pyright: ignore[reportReturnType]


def resting(phase: np.ndarray) -> Path:
    return points(84, 98, phase)


def ring(angle: np.ndarray) -> Path:
    """Move the right hand on a ring, clockwise in the image for growing angles."""
    return points(38 + 23 * np.cos(angle), 56 + 23 * np.sin(angle), angle)


def swing(phase: np.ndarray) -> np.ndarray:
    """Swing back and forth by a full turn, on average as fast as `phase`."""
    return TURN / 2 * np.sin(phase / 2)


def wave(phase: np.ndarray, rng: np.random.Generator) -> Hands:
    return ring(rng.uniform(0, TURN) + swing(phase)), resting(phase)


def circle(phase: np.ndarray, rng: np.random.Generator) -> Hands:
    return ring(phase), resting(phase)


def back(phase: np.ndarray, rng: np.random.Generator) -> Hands:
    return ring(-phase), resting(phase)


def clap(phase: np.ndarray, rng: np.random.Generator) -> Hands:
    """Move both hands as mirror images."""
    right = ring(rng.uniform(0, TURN) + swing(phase))
    return right, mirrored((right, right))[0]


def drums(phase: np.ndarray, rng: np.random.Generator) -> Hands:
    """Move the hands in alternation."""
    middle = rng.uniform(0, TURN)
    left = ring(middle - swing(phase))
    return ring(middle + swing(phase)), mirrored((left, left))[0]


def roll(phase: np.ndarray, rng: np.random.Generator) -> Hands:
    """Move both hands in the same direction, half a turn apart."""
    angle = phase if rng.random() < 0.5 else -phase
    left = ring(TURN / 2 - angle)
    return ring(angle + TURN / 2), mirrored((left, left))[0]


def guitar(phase: np.ndarray, rng: np.random.Generator) -> Hands:
    """Strum with the right hand, and move the left one along the neck, slower."""
    strum = points(54 + 5 * np.sin(phase), 80 + 18 * np.sin(phase), phase)
    return strum, points(96 + 12 * np.sin(phase / 2), 54, phase)


def other(phase: np.ndarray, rng: np.random.Generator) -> Hands:
    """Move both hands randomly."""

    def wander(x: float) -> Path:
        waves = [rng.uniform(8, 18) * np.sin(rng.uniform(0.4, 1.6) * phase + rng.uniform(0, TURN)) for _ in range(4)]
        return points(x + waves[0] + waves[1], 66 + waves[2] + waves[3], phase)

    return wander(rng.uniform(36, 54)), wander(rng.uniform(74, 92))


def left(motion: Motion) -> Motion:
    return lambda phase, rng: mirrored(motion(phase, rng))


MOTIONS = (clap, wave, left(wave), circle, back, left(back), left(circle), roll, drums, guitar, other)


def film(label: int, times: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Render one gesture as (T, 128, 128) float32, with random pace, position, size and light."""
    phase = TURN * (rng.uniform(1.2, 2.2) * (times - times[0]) / 1e6 + rng.random())
    hands = MOTIONS[label](phase, rng)
    size, shift = rng.uniform(0.85, 1.15), rng.uniform(-7, 7, 2)
    sway = rng.uniform(0, 1.2) * np.sin(phase / 3 + rng.uniform(0, TURN))[:, None]
    place = lambda path: (path - 64) * size + 64 + shift + sway
    wall, shirt, skin = rng.uniform(0.25, 0.5), rng.uniform(0.05, 0.2), rng.uniform(0.6, 0.95)
    y, x = np.mgrid[0:SIDE, 0:SIDE].astype(np.float32)
    frames = np.full((len(times), SIDE, SIDE), wall, np.float32)
    frames *= 1 + 0.15 * rng.standard_normal((SIDE, SIDE), np.float32)  # texture of the wall
    for hand, elbow_x in zip(hands, (36, 92)):
        hand, elbow = place(hand), place(points(elbow_x, 96, phase) + 0.3 * (hand - hand.mean(0)))
        _paint(frames, x, y, elbow, hand, 4.5 * size, shirt)
        _paint(frames, x, y, hand, hand, 8.5 * size, skin)
    return frames.clip(0, 1)


def _paint(
    frames: np.ndarray, x: np.ndarray, y: np.ndarray, begin: Path, end: Path, radius: float, brightness: float
) -> None:
    """Paint all pixels within `radius` of the line between two moving points, with soft edges."""
    for frame, (x0, y0), (x1, y1) in zip(frames, begin, end):
        low_x, high_x = (int(v) for v in (max(0, min(x0, x1) - radius - 3), max(0, max(x0, x1) + radius + 4)))
        low_y, high_y = (int(v) for v in (max(0, min(y0, y1) - radius - 3), max(0, max(y0, y1) + radius + 4)))
        part = slice(low_y, high_y), slice(low_x, high_x)
        dx, dy = x1 - x0, y1 - y0
        px, py = x[part] - np.float32(x0), y[part] - np.float32(y0)
        along = ((px * dx + py * dy) / max(dx * dx + dy * dy, 1e-6)).clip(0, 1)
        distance = np.hypot(px - along * dx, py - along * dy)
        cover = ((radius - distance) / 1.5 + 0.5).clip(0, 1)
        frame[part] += cover * (brightness - frame[part])
