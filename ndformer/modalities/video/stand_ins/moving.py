"""Animation for the stand-in of UCF101: an object that moves in ten ways.

Eight of them are four pairs of each other's reverse: they have the same frames, and differ only in their order.
"""

import numpy as np

HEIGHT, WIDTH, RATE = 120, 160, 25  # pixels; frames per second
MOTIONS = (
    "SlideLeft", "SlideRight", "Rise", "Fall", "CircleClockwise", "CircleCounterclockwise", "Grow", "Shrink",
    "SwingSideways", "Bounce",
)  # fmt: skip
MIRRORED = (1, 0, 2, 3, 5, 4, 6, 7, 8, 9)  # the class of each mirrored motion
BACKWARDS = ("SlideLeft", "Rise", "CircleCounterclockwise", "Shrink")  # each is the reverse of another one


def appearance(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return the background (H, W, 3) float32 0 to 255 and the object's two colors (2, 3) for a group of clips."""
    coarse = rng.uniform(50, 90, (5, 6, 3))
    rows, columns = (np.linspace(0, n - 1.001, side) for n, side in zip(coarse.shape, (HEIGHT, WIDTH)))
    y, x = rows.astype(int), columns.astype(int)
    down, right = (rows - y)[:, None, None], (columns - x)[None, :, None]
    corner = lambda dy, dx: coarse[np.ix_(y + dy, x + dx)]
    upper = corner(0, 0) * (1 - right) + corner(0, 1) * right
    lower = corner(1, 0) * (1 - right) + corner(1, 1) * right
    colours = np.stack([rng.uniform(170, 255, 3), rng.uniform(0, 80, 3)])
    return (upper * (1 - down) + lower * down).astype(np.float32), colours.astype(np.float32)


def path(motion: int, times: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return x, y and radius (T,) each; `times` are seconds from the middle of the film."""
    x, y = (side / 2 + rng.uniform(-12, 12) + 0 * times for side in (WIDTH, HEIGHT))
    radius = rng.uniform(12, 22) + 0 * times
    speed, extent = rng.uniform(0.8, 1.1), rng.uniform(0.8, 1.1)
    name = MOTIONS[motion]
    along = -times if name in BACKWARDS else times
    angle = 2 * np.pi * (rng.uniform(0.5, 0.9) * along + rng.random())
    if name.startswith("Slide"):
        x += 68 * speed * along
    elif name in ("Rise", "Fall"):
        y += 50 * speed * along
    elif name.startswith("Circle"):
        x, y = x + 32 * extent * np.cos(angle), y + 32 * extent * np.sin(angle)
    elif name in ("Grow", "Shrink"):
        radius = 19 + 12 * speed * along
    elif name == "SwingSideways":
        x += 42 * extent * np.sin(angle)
    else:
        y += 32 * extent * np.sin(angle)
    return x, y, radius


def film(motion: int, frames: int, rng: np.random.Generator, colors: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """Render a clip (T, H, W, 3) uint8."""
    background, colours = colors
    background = background + rng.normal(0, 6, background.shape).astype(np.float32)
    shaking = rng.normal(0, 3, (2 * HEIGHT, 2 * WIDTH, 1)).astype(np.float32)  # each frame has a piece of this noise
    stripes = rng.uniform(0.15, 0.35) * np.array([np.cos(a := np.pi * rng.random()), np.sin(a)])
    out = np.empty((frames, HEIGHT, WIDTH, 3), np.uint8)
    times = (np.arange(frames) - (frames - 1) / 2) / RATE
    for frame, x, y, radius in zip(out, *path(motion, times, rng)):
        low_x, high_x = max(0, int(x - radius - 1)), max(0, int(x + radius + 2))
        low_y, high_y = max(0, int(y - radius - 1)), max(0, int(y + radius + 2))
        place = slice(low_y, high_y), slice(low_x, high_x)
        top, left = rng.integers(HEIGHT), rng.integers(WIDTH)
        picture = background + shaking[top : top + HEIGHT, left : left + WIDTH]
        piece = picture[place]
        dy, dx = np.arange(low_y, low_y + len(piece))[:, None] - y, np.arange(low_x, low_x + piece.shape[1]) - x
        cover = ((radius - np.hypot(dx, dy)) / 1.5 + 0.5).clip(0, 1)[..., None]
        light = (np.sin(dx * stripes[0] + dy * stripes[1]) > -0.3)[..., None]
        piece += cover * (np.where(light, colours[0], colours[1]) - piece)
        frame[:] = picture.clip(0, 255)
    return out
