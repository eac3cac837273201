"""What a model gets of a cloud: each point in the colour of the centre nearest to it, grey where it goes to none."""

import colorsys

import numpy as np

from ndformer.modalities.pointcloud.pictures.clouds import draw

SIZE = 420
TURN = 0.381966  # of the circle of hues, from one centre to the next: the golden angle, which never comes back
TONES = ((0.75, 0.85), (0.45, 0.95), (0.9, 0.6))  # saturation and brightness, in turn
NONE, CENTRE = 200, 0


def groups(cloud: np.ndarray, index: np.ndarray, inside: np.ndarray) -> np.ndarray:
    """Of points (N, 3 + features), the (M, K) points of each centre, nearest first, and which of them count. A point of
    several centres has the colour of the one that it is nearest to among its neighbours; centres are black."""
    colours = np.full((len(cloud), 3), NONE, np.uint8)
    own = np.array([_colour(i) for i in range(len(index))])
    for place in range(index.shape[1] - 1, -1, -1):
        counts = inside[:, place]
        colours[index[counts, place]] = own[counts]
    colours[index[:, 0]] = CENTRE  # a centre is its own nearest point
    return np.asarray(draw(cloud[:, :3], colours, SIZE, shade=0.75))


def _colour(i: int) -> tuple[int, int, int]:
    r, g, b = colorsys.hsv_to_rgb(i * TURN % 1, *TONES[i % len(TONES)])
    return round(255 * r), round(255 * g), round(255 * b)
