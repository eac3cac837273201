"""Image files."""

from ndformer.framework.foreign import picture as open_image

__all__ = ["ENDINGS", "open_image"]

ENDINGS = (".jpg", ".jpeg", ".png", ".bmp", ".webp", ".ppm", ".tif", ".tiff", ".gif")
