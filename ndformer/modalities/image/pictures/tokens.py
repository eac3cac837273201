"""What a model gets of an image, as a picture: its patches, apart."""

import numpy as np

LARGE = 320  # pixels that small pictures are enlarged to, about


def apart(pixels: np.ndarray, patch: tuple[int, int], paper: int = 255) -> np.ndarray:
    """(H, W, 3) uint8 with a line of paper around every patch of (rows, columns) pixels, small pictures enlarged."""
    rows, columns = pixels.shape[0] // patch[0], pixels.shape[1] // patch[1]
    times = max(1, LARGE // max(pixels.shape[:2]))
    gap = max(1, times * min(patch) // 10)
    large = pixels.repeat(times, 0).repeat(times, 1)
    height, width = patch[0] * times, patch[1] * times
    cut = large[: rows * height, : columns * width].reshape(rows, height, columns, width, 3)
    out = np.full((rows, height + gap, columns, width + gap, 3), paper, np.uint8)
    out[:, :height, :, :width] = cut
    sheet = out.reshape(rows * (height + gap), columns * (width + gap), 3)
    return np.pad(sheet, ((gap, 0), (gap, 0), (0, 0)), constant_values=paper)
