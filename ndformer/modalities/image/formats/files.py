"""Names for reading image files, as the other modalities have them in formats/files.py."""

from ndformer.framework.foreign import PICTURES as ENDINGS
from ndformer.framework.foreign import picture as open_image

__all__ = ["ENDINGS", "open_image"]
