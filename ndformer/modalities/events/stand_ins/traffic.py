"""Animation for the stand-in of GEN1: cars and pedestrians in a street seen from a car, among distractors.

Positions are in pixels of GEN1's sensor. The camera pans and sways. Standing objects move with the image; others have
their own speed, and approach or recede. Trees, posts and kiosks are distractors without boxes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

from ndformer.modalities.events.formats.evt_dat import GEN1 as SENSOR

HEIGHT, WIDTH = SENSOR
HORIZON = 104  # row
# meters of the camera above the street: an object's foot is EYE / its height below the horizon, in its heights
EYE = 1.25
MARGIN = 100  # columns and rows around the image for panning
FINE = 3  # supersampling factor of sprites
STRIDES = 16  # pictures of a step
MIN_VISIBLE = 0.35  # share of an object that is on the sensor and not hidden, from which it has a box
CAR, PEDESTRIAN, DISTRACTOR = 0, 1, -1
METERS = {CAR: 1.5, PEDESTRIAN: 1.7, DISTRACTOR: 2.4}


class Canvas:
    """Draws brightness and coverage together, in units of an object's height."""

    def __init__(self, height: int, width: float) -> None:
        self.scale = height * FINE
        size = round(width * self.scale), self.scale
        self.light, self.cover = Image.new("L", size), Image.new("L", size)

    def polygon(self, points: Sequence[tuple[float, float]], light: float) -> None:
        scaled = [(x * self.scale, y * self.scale) for x, y in points]
        for image, value in ((self.light, light), (self.cover, 1.0)):
            ImageDraw.Draw(image).polygon(scaled, fill=round(255 * value))

    def box(self, x0: float, y0: float, x1: float, y1: float, light: float) -> None:
        self.polygon([(x0, y0), (x1, y0), (x1, y1), (x0, y1)], light)

    def disc(self, x: float, y: float, radius: float, light: float) -> None:
        turn = np.arange(24) * np.pi / 12
        self.polygon([(x + radius * c, y + radius * s) for c, s in zip(np.cos(turn), np.sin(turn))], light)

    def limb(self, x: float, y: float, angle: float, length: float, width: float, light: float) -> None:
        """Draw a bar from (x, y) that hangs down at angle 0."""
        along, across = np.array([np.sin(angle), np.cos(angle)]), np.array([np.cos(angle), -np.sin(angle)]) * width / 2
        begin = np.array([x, y])
        end = begin + length * along
        self.polygon([tuple(p) for p in (begin - across, begin + across, end + across, end - across)], light)

    def planes(self) -> np.ndarray:
        """Return brightness and coverage, (2, h, w) in 0 to 1, with a border of one empty pixel."""
        small = [np.asarray(image.reduce(FINE), np.float32) / 255 for image in (self.light, self.cover)]
        return np.pad(np.stack(small), ((0, 0), (1, 1), (1, 1)))


def car(height: int, rng: np.random.Generator) -> np.ndarray:
    """Draw a car from the side, the front or the back, (1, 2, h, w)."""
    paint, glass, tire, lamp = rng.uniform(0.15, 0.95), rng.uniform(0.05, 0.4), 0.04, rng.uniform(0.5, 1)
    if rng.random() < 0.55:
        long, nose = rng.uniform(2.3, 2.9), rng.uniform(0.2, 0.3)
        canvas, x = Canvas(height, long), lambda share: share * long
        roof = nose + rng.uniform(0.1, 0.16), rng.uniform(0.66, 0.9)
        outline = [(0, 0.85), (0, 0.52), (0.05, 0.43), (nose, 0.38), (roof[0], 0.03), (roof[1], 0.03)]
        outline += [(min(0.97, roof[1] + 0.13), 0.38), (0.99, 0.45), (1, 0.85)]
        canvas.polygon([(x(a), b) for a, b in outline], paint)
        middle = sum(roof) / 2
        for a, b in ((roof[0] + 0.02, middle - 0.01), (middle + 0.01, roof[1] - 0.02)):
            lean = 0.06 if a < middle - 0.02 else 0.0
            canvas.polygon([(x(a - lean), 0.37), (x(a), 0.1), (x(b), 0.1), (x(b + 0.05 - lean), 0.37)], glass)
        canvas.box(x(0.01), 0.5, x(0.05), 0.6, lamp)
        for place in (0.2, 0.81):
            canvas.disc(x(place), 0.83, 0.17, tire)
            canvas.disc(x(place), 0.83, 0.09, 0.5)
    else:
        wide, roof = rng.uniform(1.1, 1.35), rng.uniform(0.14, 0.24)
        canvas, x = Canvas(height, wide), lambda share: share * wide
        for place in (0.06, 0.78):
            canvas.box(x(place), 0.8, x(place + 0.16), 1, tire)
        canvas.polygon([(x(a), b) for a, b in ((0.07, 0.42), (roof, 0.02), (1 - roof, 0.02), (0.93, 0.42))], paint)
        canvas.box(0, 0.4, wide, 0.88, paint)
        canvas.polygon(
            [(x(a), b) for a, b in ((0.16, 0.38), (roof + 0.05, 0.1), (0.95 - roof, 0.1), (0.84, 0.38))], glass
        )
        for place in (0.03, 0.82):
            canvas.box(x(place), 0.46, x(place + 0.15), 0.58, lamp)
        canvas.box(x(0.36), 0.64, x(0.64), 0.76, 0.9)
    planes = canvas.planes()
    return planes[None, :, :, :: int(rng.choice((-1, 1)))]


def pedestrian(height: int, rng: np.random.Generator) -> np.ndarray:
    """Draw a pedestrian in the phases of two steps, (STRIDES, 2, h, w)."""
    shirt, trousers, skin = rng.uniform(0.1, 0.95), rng.uniform(0.05, 0.7), rng.uniform(0.3, 0.8)
    stout, swing = rng.uniform(0.8, 1.25), rng.uniform(0.3, 0.5)
    pictures = []
    for phase in np.arange(STRIDES) * 2 * np.pi / STRIDES:
        canvas, lean = Canvas(height, 0.7), swing * np.sin(phase)
        canvas.limb(0.35, 0.2, lean, 0.34, 0.06 * stout, shirt * 0.8)
        for angle, tone in ((-lean, 0.8), (lean, 1.0)):
            canvas.limb(0.35, 0.48, angle, 0.5, 0.09 * stout, trousers * tone)
        wide = 0.1 * stout
        canvas.polygon(
            [(0.35 - wide, 0.16), (0.35 + wide, 0.16), (0.35 + 0.8 * wide, 0.52), (0.35 - 0.8 * wide, 0.52)], shirt
        )
        canvas.limb(0.35, 0.2, -lean, 0.34, 0.06 * stout, shirt * 0.9)
        canvas.disc(0.35, 0.08, 0.075, skin)
        pictures.append(canvas.planes())
    return np.stack(pictures)[..., :: int(rng.choice((-1, 1)))]


def street(height: int, rng: np.random.Generator) -> np.ndarray:
    """Draw a tree, a post with a sign, or a kiosk, (1, 2, h, w)."""
    light = rng.uniform(0.05, 0.9)
    kind = int(rng.integers(3))
    canvas = Canvas(height, (0.6, 0.3, 1.1)[kind])
    if kind == 0:
        canvas.box(0.27, 0.5, 0.33, 1, 0.1)
        for _ in range(7):
            x, y = rng.uniform((0.2, 0.17), (0.4, 0.5))
            canvas.disc(x, y, rng.uniform(0.1, 0.17), light * rng.uniform(0.7, 1.1))
    elif kind == 1:
        canvas.box(0.13, 0.1, 0.17, 1, 0.3)
        canvas.disc(0.15, 0.14, 0.13, light)
    else:
        canvas.box(0, 0.05, 1.1, 1, light)
        canvas.box(0.1, 0.2, 1, 0.5, 1 - light)
        canvas.box(0, 0.05, 1.1, 0.12, 0.5)
    return canvas.planes()[None]


SPRITES = {CAR: car, PEDESTRIAN: pedestrian, DISTRACTOR: street}
SPEED = {CAR: (0.1, 1.3), PEDESTRIAN: (0.15, 0.5)}  # of moving objects, in their heights per second
TALL = {CAR: (18, 95), PEDESTRIAN: (28, 120), DISTRACTOR: (30, 140)}  # pixels


@dataclass(frozen=True, eq=False)
class StreetObject:
    """A sprite with its position and size over time."""

    label: int
    sprite: np.ndarray  # (P, 2, h, w) brightness and coverage
    middle: np.ndarray  # (T,) columns
    foot: np.ndarray  # (T,) rows
    height: np.ndarray  # (T,)
    phase: np.ndarray  # (T,) index of the sprite's picture

    @classmethod
    def random(cls, label: int, seconds: np.ndarray, camera: np.ndarray, rng: np.random.Generator) -> StreetObject:
        """Create an object with random motion; `camera` (T, 2) is the camera's motion in columns and rows."""
        small, large = np.log(TALL[label])
        tall = float(np.exp(rng.uniform(small, large)))
        stands = label == DISTRACTOR or rng.random() < 0.15
        nearer = 0.0 if stands else rng.uniform(-0.2, 0.3)
        height = tall * np.exp(nearer * (seconds - seconds.mean()))
        speed = 0.0 if stands else rng.choice((-1, 1)) * tall * rng.uniform(*SPEED[label])
        middle = rng.uniform(0.05, 0.95) * WIDTH + speed * (seconds - seconds.mean()) + camera[:, 0]
        foot = HORIZON + EYE / METERS[label] * height * rng.uniform(0.9, 1.1) + camera[:, 1]
        pace = abs(speed) / tall * rng.uniform(2.2, 3.0)  # two steps a second at 0.4 heights a second
        sprite = SPRITES[label](round(tall), rng)
        phase = (STRIDES * (rng.random() + pace * seconds)).astype(np.int64) % len(sprite)
        return cls(label, sprite, middle, foot, height, phase)

    @property
    def distance(self) -> float:
        return METERS[self.label] / float(self.height.mean())

    def place(self, time: int) -> tuple[float, float, float]:
        """Return left, top and scale of the sprite."""
        height, width = self.sprite.shape[2:]
        scale = float(self.height[time]) / (height - 2)
        return float(self.middle[time]) - scale * width / 2, float(self.foot[time]) - scale * (height - 1), scale

    def box(self, time: int) -> tuple[np.ndarray, float]:
        """Return the box (4,) x, y, width, height of the sprite, visible or not, and its number of pixels."""
        left, top, scale = self.place(time)
        rows, columns = np.nonzero(self.sprite[self.phase[time], 1] > 0.5)
        low, high = np.array([columns.min(), rows.min()]), np.array([columns.max() + 1, rows.max() + 1])
        return np.concatenate([(left, top) + scale * low, scale * (high - low)]), len(rows) * scale**2


def sample_image(planes: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Interpolate (C, h, w) linearly at rows and columns: (C, len(rows), len(columns)); borders are repeated."""
    for axis, places in ((1, rows), (2, columns)):
        low = np.floor(places).astype(np.int64)
        share = (places - low).astype(np.float32)
        share = share[:, None] if axis == 1 else share
        before, after = (planes.take((low + k).clip(0, planes.shape[axis] - 1), axis) for k in (0, 1))
        planes = before + share * (after - before)
    return planes


def paint(frame: np.ndarray, owner: np.ndarray, item: StreetObject, number: int, time: int) -> None:
    """Draw an object on a frame, and write its number to `owner` where it covers most of a pixel."""
    left, top, scale = item.place(time)
    height, width = item.sprite.shape[2:]
    y0, y1 = max(0, int(top)), min(HEIGHT, int(np.ceil(top + scale * height)))
    x0, x1 = max(0, int(left)), min(WIDTH, int(np.ceil(left + scale * width)))
    if y0 >= y1 or x0 >= x1:
        return
    rows, columns = (np.arange(y0, y1) + 0.5 - top) / scale - 0.5, (np.arange(x0, x1) + 0.5 - left) / scale - 0.5
    light, cover = sample_image(item.sprite[item.phase[time]], rows, columns)
    part = frame[y0:y1, x0:x1]
    part += light - cover * part  # light is premultiplied by its coverage
    owner[y0:y1, x0:x1][cover > 0.5] = number


def houses(rng: np.random.Generator) -> np.ndarray:
    """Draw the background, houses and road, as brightness (1, h, w)."""
    wide, high, line = WIDTH + 2 * MARGIN, HEIGHT + 2 * MARGIN, HORIZON + MARGIN
    sky = int(rng.integers(110, 230))
    view = Image.new("L", (wide, high), sky)
    pen, x = ImageDraw.Draw(view), 0
    while x < wide:
        width, top = int(rng.integers(30, 90)), line - int(rng.integers(15, 80))
        wall = int(sky * rng.uniform(0.55, 1.0))
        pen.rectangle((x, top, x + width, line), fill=wall)
        step = int(rng.integers(11, 20))
        for column in range(x + 4, x + width - 6, step):
            for row in range(top + 5, line - 8, step):
                pen.rectangle(
                    (column, row, column + step // 2, row + step // 2), fill=int(wall * rng.uniform(0.7, 1.0))
                )
        x += width + int(rng.integers(0, 30))
    pen.rectangle((0, line, wide, high), fill=int(rng.integers(70, 130)))
    pen.rectangle((0, line + 12, wide, line + 14), fill=int(rng.integers(130, 180)))  # the curb
    for x in range(int(rng.integers(60)), wide, 80):
        pen.rectangle((x, line + 60, x + 34, line + 63), fill=210)
    light = np.asarray(view.filter(ImageFilter.BoxBlur(1)), np.float32) / 255
    return (light * (1 + 0.04 * rng.standard_normal(light.shape, np.float32))).clip(0, 1)[None]


def film(times: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, list[StreetObject], np.ndarray]:
    """Render a street: frames (T, HEIGHT, WIDTH) float32, the labeled objects, and their visibility (T, objects).

    `times` are in microseconds. The visibility is the share of each object that is visible.
    """
    seconds = times / 1e6
    sway = rng.uniform(0.4, 1.2) * np.sin(2 * np.pi * (rng.uniform(1.0, 2.5) * seconds + rng.random()))
    pan = rng.choice((-1, 1)) * rng.uniform(4, 35) * (seconds - seconds.mean())
    camera = np.stack([pan, sway], 1)
    labels = [label for label in (CAR, PEDESTRIAN, DISTRACTOR) for _ in range(int(rng.integers(0, 4)))]
    items = sorted(
        (StreetObject.random(label, seconds, camera, rng) for label in labels), key=lambda item: -item.distance
    )
    view = houses(rng)
    frames, visible = np.empty((len(times), HEIGHT, WIDTH), np.float32), np.zeros((len(times), len(items)))
    for time, (x, y) in enumerate(camera):
        owner = np.full((HEIGHT, WIDTH), -1, np.int8)
        frames[time] = sample_image(view, np.arange(HEIGHT) + MARGIN - y, np.arange(WIDTH) + MARGIN - x)[0]
        for number, item in enumerate(items):
            paint(frames[time], owner, item, number, time)
        count = np.bincount(owner[owner >= 0], minlength=len(items))
        visible[time] = count / [item.box(time)[1] for item in items]
    labeled = [i for i, item in enumerate(items) if item.label != DISTRACTOR]
    return frames.clip(0, 1), [items[i] for i in labeled], visible[:, labeled]
