"""Pictures of a video's tokens: tubelets, separated by lines in space and by a bar in time."""

import numpy as np

from ndformer.modalities.image.pictures.tokens import separate_patches

BAR, ON, OFF = 8, (20, 90, 160), (215, 220, 225)  # height of the bar, color of the current tubelets, and of the others


def tubelets(video: np.ndarray, tubelet: tuple[int, int, int]) -> list[np.ndarray]:
    """Draw each frame of (T, H, W, 3), with a bar below that has a section for each tubelet's time."""
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
