"""Base class of mixers, which change a training batch before it becomes tokens (MixUp, CutMix, Mix3D)."""

from typing import Any


class Mixer:
    """Base class of mixers. Register subclasses in MIXERS and draw random numbers with torch, seeded in every step."""

    def __call__(self, inputs: dict[str, Any], targets: Any) -> tuple[dict[str, Any], Any]:
        """Return changed inputs by modality and changed targets of the head."""
        raise NotImplementedError
