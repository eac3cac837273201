"""Films of a thing that moves, in ten ways that no single frame can tell apart.

Where the thing is, how large it is and what it looks like are independent of the way it moves, in every frame.
"""

from __future__ import annotations

import numpy as np

HEIGHT, WIDTH, RATE = 120, 160, 25  # pixels; frames a second
WAYS = (
    "SlideLeft", "SlideRight", "Rise", "Fall", "CircleClockwise", "CircleCounterclockwise", "Grow", "Shrink",
    "SwingSideways", "Bounce",
)  # fmt: skip
MIRRORED = (1, 0, 2, 3, 5, 4, 6, 7, 8, 9)  # what each looks like in a mirror
SMALL, LARGE = 9.0, 22.0  # the thing's radius


def scene(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """What the clips of a group share: a background (H, W, 3) float32 0 to 255, and the thing's two colours (2, 3)."""
    coarse = rng.uniform(40, 130, (5, 6, 3))
    rows, columns = (np.linspace(0, n - 1.001, side) for n, side in zip(coarse.shape, (HEIGHT, WIDTH)))
    y, x = rows.astype(int), columns.astype(int)
    down, right = (rows - y)[:, None, None], (columns - x)[None, :, None]
    corner = lambda dy, dx: coarse[np.ix_(y + dy, x + dx)]
    upper = corner(0, 0) * (1 - right) + corner(0, 1) * right
    lower = corner(1, 0) * (1 - right) + corner(1, 1) * right
    colours = np.stack([rng.uniform(170, 255, 3), rng.uniform(0, 80, 3)])
    return (upper * (1 - down) + lower * down).astype(np.float32), colours.astype(np.float32)


def path(way: int, times: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(T,) each: x, y and radius. Things that leave the picture come in again at the other side."""
    x, y = rng.uniform(0, WIDTH) + 0 * times, rng.uniform(0, HEIGHT) + 0 * times
    share = rng.random() + 0 * times  # of the way from small to large
    speed, turns, phase = rng.uniform(35, 75), rng.uniform(0.5, 0.9), 2 * np.pi * rng.random()
    reach, angle = rng.uniform(18, 32), 2 * np.pi * turns * times + phase
    name = WAYS[way]
    if name.startswith("Slide"):
        x += speed * times * (1 if name == "SlideRight" else -1)
    elif name in ("Rise", "Fall"):
        y += speed * times * (1 if name == "Fall" else -1)
    elif name.startswith("Circle"):
        x, y = x + reach * np.cos(angle), y + reach * np.sin(angle) * (1 if name == "CircleClockwise" else -1)
    elif name in ("Grow", "Shrink"):
        share = (share + rng.uniform(0.3, 0.5) * times * (1 if name == "Grow" else -1)) % 1
    elif name == "SwingSideways":
        x += reach * np.sin(angle)
    else:
        y += reach * np.sin(angle)
    return x % WIDTH, y % HEIGHT, SMALL + (LARGE - SMALL) * share


def film(way: int, frames: int, rng: np.random.Generator, of: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """(T, H, W, 3) uint8."""
    background, colours = of
    background = background + rng.normal(0, 6, background.shape).astype(np.float32)
    shaking = rng.normal(0, 3, (2 * HEIGHT, 2 * WIDTH, 1)).astype(np.float32)  # a piece of it for each frame
    stripes = rng.uniform(0.15, 0.35) * np.array([np.cos(a := np.pi * rng.random()), np.sin(a)])
    out = np.empty((frames, HEIGHT, WIDTH, 3), np.uint8)
    rows, columns = np.arange(HEIGHT), np.arange(WIDTH)
    for frame, x, y, radius in zip(out, *path(way, np.arange(frames) / RATE, rng)):
        dx = (columns - x + WIDTH / 2) % WIDTH - WIDTH / 2
        dy = (rows - y + HEIGHT / 2) % HEIGHT - HEIGHT / 2
        place = np.ix_(np.abs(dy) < radius + 1, np.abs(dx) < radius + 1)
        dx, dy = dx[place[1][0]][None], dy[place[0][:, 0]][:, None]
        cover = ((radius - np.hypot(dx, dy)) / 1.5 + 0.5).clip(0, 1)[..., None]
        light = (np.sin(dx * stripes[0] + dy * stripes[1]) > -0.3)[..., None]
        top, left = rng.integers(HEIGHT), rng.integers(WIDTH)
        picture = background + shaking[top : top + HEIGHT, left : left + WIDTH]
        picture[place] += cover * (np.where(light, colours[0], colours[1]) - picture[place])
        frame[:] = picture.clip(0, 255)
    return out
