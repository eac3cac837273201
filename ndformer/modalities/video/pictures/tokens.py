"""What a model gets of a video: its tubelets, separate_patches in space, and in time told by a bar."""

import numpy as np

from ndformer.modalities.image.pictures.tokens import separate_patches

BAR, ON, OFF = 8, (20, 90, 160), (215, 220, 225)  # the bar's height, the tubelets that a frame is of, the others


def tubelets(video: np.ndarray, tubelet: tuple[int, int, int]) -> list[np.ndarray]:
    """A picture for each frame (T, H, W, 3); the bar below has a piece for each tubelet's time."""
    times = max(1, len(video) // tubelet[0])
    pictures = []
    for number, frame in enumerate(video):
        picture = separate_patches(frame, tubelet[1:])
        edges = np.linspace(0, picture.shape[1], times + 1).astype(int)
        bar = np.full((BAR, picture.shape[1], 3), OFF, np.uint8)
        now = number // tubelet[0]
        bar[:, edges[now] : edges[now + 1]] = ON
        bar[:, edges[1:-1]] = 255
        pictures.append(np.concatenate([picture, bar]))
    return pictures
