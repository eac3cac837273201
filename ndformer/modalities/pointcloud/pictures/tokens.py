"""Picture of a cloud's tokens: each point in the color of its nearest center, gray where it is in no token."""

import numpy as np

from ndformer.framework.pictures.canvas import distinct_colors
from ndformer.modalities.pointcloud.pictures.clouds import draw

SIZE = 420
NONE, CENTRE = 200, 0


def groups(cloud: np.ndarray, index: np.ndarray, inside: np.ndarray) -> np.ndarray:
    """Draw points (N, 3 + features) in the colors of their centers, and centers in black.

    `index` (M, K) has the neighbors of each center, nearest first, and `inside` masks the valid ones. A point of
    several centers has the color of the one in whose list it comes first.
    """
    colours = np.full((len(cloud), 3), NONE, np.uint8)
    center_colors = (255 * distinct_colors(len(index))[:, :3]).round()
    for place in range(index.shape[1] - 1, -1, -1):
        counts = inside[:, place]
        colours[index[counts, place]] = center_colors[counts]
    colours[index[:, 0]] = CENTRE  # a center is its own nearest neighbor
    return np.asarray(draw(cloud[:, :3], colours, SIZE, shade=0.75))
