"""Stand-in of N-MNIST: drawn digits, recorded by a simulated camera that moves as in N-MNIST."""

from pathlib import Path

import numpy as np

from ndformer.framework.data.stand_ins import stand_in
from ndformer.modalities.events.formats.nmnist_bin import SIDE, write_bin
from ndformer.modalities.events.stand_ins.baselines import baselines
from ndformer.modalities.events.stand_ins.camera import film_to_events
from ndformer.modalities.image.stand_ins.strokes import handwriting


@stand_in(dict(type="NMNIST"), baselines)
def nmnist(folder: Path, seed: int = 0, train: int = 60, test: int = 15) -> None:
    """Write 600 + 150 recordings of drawn digits with the three saccades of N-MNIST."""
    rng = np.random.default_rng(seed)
    times = np.arange(0, 306_000, 6_000)
    corners = np.array([(0, 0), (1, 2), (2, 0), (0, 0)]) * 2.0  # path of the camera: down to the right, up, back
    path = np.stack([np.interp(times / 102_000, np.arange(4), side) for side in corners.T], 1)  # (T, 2): x, y
    for home, count in (("Train", train), ("Test", test)):
        for label in range(10):
            (folder / home / str(label)).mkdir(parents=True)
            digits = handwriting(np.full(count, label), 28, rng)
            for number, digit in enumerate(digits, 1):
                frames = np.stack([shifted(digit, 5 - x, 5 - y) for x, y in path])
                events = film_to_events(frames, times, rng, threshold=0.5, noise=1.0)
                write_bin(folder / home / str(label) / f"{number:05d}.bin", events)


def shifted(digit: np.ndarray, x: float, y: float) -> np.ndarray:
    """Place a digit on an image (34, 34) float32, 0 to 1, at a sub-pixel position."""
    out = np.zeros((SIDE, SIDE), np.float32)
    column, row = int(x), int(y)
    size = len(digit)
    for dy, weight_y in ((0, 1 - (y - row)), (1, y - row)):
        for dx, weight_x in ((0, 1 - (x - column)), (1, x - column)):
            place = out[row + dy : row + dy + size, column + dx : column + dx + size]
            place += weight_y * weight_x * (digit[: place.shape[0], : place.shape[1]] / 255)
    return out
