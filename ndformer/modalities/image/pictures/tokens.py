"""Picture of an image's tokens: its patches, separated by lines."""

import numpy as np

LARGE = 320  # pixels of the longer side, to which small images are enlarged
WHITE = 255


def separate_patches(pixels: np.ndarray, patch: tuple[int, int]) -> np.ndarray:
    """Draw white lines between the patches of an image (H, W, 3) uint8; `patch` is (rows, columns). Small ones grow."""
    rows, columns = pixels.shape[0] // patch[0], pixels.shape[1] // patch[1]
    times = max(1, LARGE // max(pixels.shape[:2]))
    gap = max(1, times * min(patch) // 10)
    large = pixels.repeat(times, 0).repeat(times, 1)
    height, width = patch[0] * times, patch[1] * times
    cut = large[: rows * height, : columns * width].reshape(rows, height, columns, width, 3)
    out = np.full((rows, height + gap, columns, width + gap, 3), WHITE, np.uint8)
    out[:, :height, :, :width] = cut
    sheet = out.reshape(rows * (height + gap), columns * (width + gap), 3)
    return np.pad(sheet, ((gap, 0), (gap, 0), (0, 0)), constant_values=WHITE)
