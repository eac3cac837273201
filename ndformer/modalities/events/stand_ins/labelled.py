"""Generated stand-ins for event datasets, each in the dataset's own format on disk, read by the same loaders.

SAMPLES.get("dvsgesture")(folder, seed=0). Films of moving things, seen by a simulated camera; a seed always gives the
same files.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ndformer.framework.registry import SAMPLES
from ndformer.modalities.events.datasets.gesture import CLASSES
from ndformer.modalities.events.formats.aedat import write_aedat3
from ndformer.modalities.events.formats.nmnist_bin import SIDE, write_bin
from ndformer.modalities.events.formats.stream import Events, concatenate
from ndformer.modalities.events.stand_ins.acting import film
from ndformer.modalities.events.stand_ins.camera import film_to_events
from ndformer.modalities.image.stand_ins.figures import handwriting

RATE, LENGTH, PAUSE = 60, 1_000_000, 150_000  # frames a second; microseconds of a gesture and between two
TRAIN, TEST = range(1, 24), range(24, 30)  # users, as in the real set
LIGHTS = ("fluorescent", "lab", "led", "natural")


def gesture(label: int, start: int, rng: np.random.Generator) -> Events:
    times = start + np.arange(0, LENGTH, 1_000_000 // RATE)
    return film_to_events(film(label, times, rng), times, rng, threshold=0.4, noise=0.3)


@SAMPLES.register_module(name="dvsgesture")
def dvsgesture(folder: Path, seed: int = 0, lights: tuple[str, ...] = LIGHTS) -> None:
    """116 recordings of eleven gestures, each a little over a second long, by the 29 users."""
    home = folder / "DvsGesture"
    home.mkdir()
    names: dict[str, list[str]] = dict(train=[], test=[])
    for split, users in dict(train=TRAIN, test=TEST).items():
        for user in users:
            for number, light in enumerate(lights):
                rng = np.random.default_rng((seed, user, number))
                name, start = f"user{user:02d}_{light}", int(rng.integers(1_000_000, 9_000_000))
                parts, rows = [], ["class,startTime_usec,endTime_usec"]
                for label in range(len(CLASSES)):
                    parts.append(gesture(label, start, rng))
                    rows.append(f"{label + 1},{start},{start + LENGTH}")
                    start += LENGTH + PAUSE
                write_aedat3(home / f"{name}.aedat", concatenate(parts))
                (home / f"{name}_labels.csv").write_text("\n".join(rows) + "\n")
                names[split].append(f"{name}.aedat")
    for split, listed in names.items():
        (home / f"trials_to_{split}.txt").write_text("\n".join(listed) + "\n")
    rows = [f"{name.replace(' ', '_')},{label}" for label, name in enumerate(CLASSES, 1)]
    (home / "gesture_mapping.csv").write_text("\n".join(["action,label", *rows]) + "\n")


@SAMPLES.register_module(name="nmnist")
def nmnist(folder: Path, seed: int = 0, train: int = 60, test: int = 15) -> None:
    """600 + 150 drawn digits, filmed in the three saccades of N-MNIST."""
    rng = np.random.default_rng(seed)
    times = np.arange(0, 306_000, 6_000)
    corners = np.array([(0, 0), (1, 2), (2, 0), (0, 0)]) * 2.0  # the camera's way: down to the right, up, back
    path = np.stack([np.interp(times / 102_000, np.arange(4), corners[:, axis]) for axis in (0, 1)], 1)  # (T, 2): x, y
    for home, count in (("Train", train), ("Test", test)):
        for label in range(10):
            (folder / home / str(label)).mkdir(parents=True)
            digits = handwriting(np.full(count, label), 28, rng)
            for number, digit in enumerate(digits, 1):
                frames = np.stack([shifted(digit, 5 - x, 5 - y) for x, y in path])
                events = film_to_events(frames, times, rng, threshold=0.5, noise=1.0)
                write_bin(folder / home / str(label) / f"{number:05d}.bin", events)


def shifted(digit: np.ndarray, x: float, y: float) -> np.ndarray:
    """(34, 34) float32, 0 to 1: a picture with its corner at a place between pixels."""
    out = np.zeros((SIDE, SIDE), np.float32)
    column, row = int(x), int(y)
    size = len(digit)
    for dy, weight_y in ((0, 1 - (y - row)), (1, y - row)):
        for dx, weight_x in ((0, 1 - (x - column)), (1, x - column)):
            place = out[row + dy : row + dy + size, column + dx : column + dx + size]
            place += weight_y * weight_x * (digit[: place.shape[0], : place.shape[1]] / 255)
    return out
