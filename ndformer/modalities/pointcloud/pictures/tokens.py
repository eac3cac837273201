"""What a model gets of a cloud: each point in the colour of a centre that it goes to, grey where it goes to none."""

import numpy as np

from ndformer.modalities.pointcloud.pictures.clouds import class_colours, draw

SIZE = 320


def groups(cloud: np.ndarray, index: np.ndarray, inside: np.ndarray) -> np.ndarray:
    """Of points (N, 3 + features), the (M, K) points of each centre and which of them count. A point of several centres
    has the colour of the last; centres are black."""
    label = np.full(len(cloud), -1)
    label[index[inside]] = np.broadcast_to(np.arange(len(index))[:, None], index.shape)[inside]
    colours = class_colours(label)
    colours[index[:, 0]] = 0  # a centre is its own nearest point
    return np.asarray(draw(cloud[:, :3], colours, SIZE))
