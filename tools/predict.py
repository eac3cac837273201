"""Predict for files or folders: the likeliest classes of each.

tools/predict.py configs/cifar10_pape.py work_dirs/cifar10_pape/best.pth photo.jpg folder/ [--out out.json]
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch

from ndformer.framework.engine import checkpoint, output
from ndformer.framework.engine.cli import config_arguments, config_from, run
from ndformer.framework.engine.run import build_model, write_predictions
from ndformer.modalities.image.trained import Preparation, files_of


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
    files = files_of(given.files)
    if given.out is not None:
        output.ready(given.out, output.TABLES)
    model = build_model(cfg).eval()
    content = checkpoint.load(given.checkpoint)
    checkpoint.load_weights(model, content, given.checkpoint)
    classes = content["classes"]
    prepared = Preparation(cfg, model)
    predictions = []
    for path in files:
        predictions += model.val_step(prepared(path))
        best = predictions[-1]["scores"].topk(min(given.top, len(classes)))
        named = "  ".join(f"{classes[i]} {p:.3f}" for p, i in zip(best.values.tolist(), best.indices.tolist()))
        print(f"{path}  {named}", flush=True)
    if given.out is not None:
        write_predictions(given.out, predictions, classes)
        print(given.out)


if __name__ == "__main__":
    run(main)
