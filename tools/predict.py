"""Predict for files or folders: the likeliest classes of each.

tools/predict.py configs/cifar10_pape.py work_dirs/cifar10_pape/best.pth photo.jpg folder/ [--out out.json]
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import cast

import numpy as np
import torch

from ndformer.framework.data import DataError, collate
from ndformer.framework.engine import checkpoint
from ndformer.framework.engine.cli import config_arguments, config_from, run
from ndformer.framework.engine.run import build_model, write_predictions
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


@torch.no_grad()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    config_arguments(parser)
    parser.add_argument("checkpoint", metavar="CHECKPOINT", type=Path)
    parser.add_argument("files", metavar="FILE", type=Path, nargs="+")
    parser.add_argument("--top", type=int, default=3, help="how many classes to name")
    parser.add_argument("--out", metavar="FILE", type=Path, help=".csv or .json")
    given = parser.parse_args()
    cfg = config_from(given)
    model = build_model(cfg).eval()
    content = checkpoint.load(given.checkpoint)
    checkpoint.load_weights(model, content, given.checkpoint)
    classes = content["classes"]
    transforms = [TRANSFORMS.create(t) for t in cfg.test_dataloader.dataset.transforms]
    channels = cast(ImagePatches, next(iter(model.modalities.values()))).channels
    predictions = []
    rng = np.random.default_rng(0)
    for path in files_of(given.files):
        sample = dict(image=open_image(path, "RGB" if channels == 3 else "L"), label=-1, index=0, path=str(path))
        for transform in transforms:
            sample = transform(sample, rng)
        predictions += model.val_step(collate([sample]))
        best = predictions[-1]["scores"].topk(min(given.top, len(classes)))
        named = "  ".join(f"{classes[i]} {p:.3f}" for p, i in zip(best.values.tolist(), best.indices.tolist()))
        print(f"{path}  {named}")
    if given.out is not None:
        write_predictions(given.out, predictions, classes)
        print(given.out)


if __name__ == "__main__":
    run(main)
