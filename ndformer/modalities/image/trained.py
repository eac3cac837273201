"""A trained model and what to show it: files, or samples of its test set, made ready as in its test."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from mmengine.config import Config

from ndformer.framework.data import DataError, collate
from ndformer.framework.engine.text import spelled
from ndformer.framework.model import TokenModel
from ndformer.framework.registry import TRANSFORMS
from ndformer.modalities.image.adapter import ImagePatches
from ndformer.modalities.image.files import ENDINGS, open_image


def files_of(paths: list[Path]) -> list[Path]:
    """The images that paths name or hold."""
    found = []
    for path in paths:
        if not path.exists():
            raise DataError(f"no file or folder at {path}")
        inside = sorted(p for p in path.rglob("*") if p.suffix.lower() in ENDINGS) if path.is_dir() else [path]
        if not inside:
            raise DataError(f"no images ({', '.join(ENDINGS)}) in {path}")
        found += inside
    return found


class Preparation:
    """Images as the model gets them in its test: through the config's transforms, as batches of one."""

    def __init__(self, cfg: Config, model: TokenModel) -> None:
        adapter = next(iter(model.modalities.values()))
        if len(model.modalities) > 1 or not isinstance(adapter, ImagePatches):
            kinds = ", ".join(type(one).__name__ for one in model.modalities.values())
            raise DataError(f"images alone are no input for this model ({kinds}): give the config of an image model")
        self.patch, self.mode = adapter.patch, "RGB" if adapter.channels == 3 else "L"
        self.transforms = list(cfg.test_dataloader.dataset.transforms)
        self.steps = [TRANSFORMS.create(transform) for transform in self.transforms]

    def __call__(self, path: Path) -> dict[str, Any]:
        """The batch of a file."""
        sample: dict[str, Any] = dict(image=open_image(path, self.mode), label=-1, index=0, path=str(path))
        rng = np.random.default_rng(0)
        for step in self.steps:
            sample = step(sample, rng)
        height, width = sample["inputs"]["image"].shape[1:]
        if height % self.patch or width % self.patch:
            raise DataError(
                f"{path} has {height} x {width} pixels, which patches of {self.patch} do not divide: have it resized, "
                f'--cfg-options "test_dataloader.dataset.transforms={self._with_resize(height, width)}"'
            )
        return collate([sample])

    def _with_resize(self, height: int, width: int) -> str:
        """The transforms as Python text, with a Resize to the nearest whole number of patches."""
        size = tuple(max(1, round(side / self.patch)) * self.patch for side in (height, width))
        *before, pack = self.transforms
        text = spelled(dict(transforms=[*before, dict(type="Resize", size=size), pack]))
        return " ".join(text.partition(" = ")[2].split())
