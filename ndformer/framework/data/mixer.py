"""Mixer: changes a training batch before it becomes tokens (MixUp, CutMix, Mix3D)."""

from typing import Any


class Mixer:
    """Extend it and register it in MIXERS. Randomness is torch's: every step is seeded by its number."""

    def __call__(self, inputs: dict[str, Any], targets: Any) -> tuple[dict[str, Any], Any]:
        """Inputs by modality, and the head's targets."""
        raise NotImplementedError
