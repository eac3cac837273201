"""Predict for files or folders: the likeliest classes of each, what is where in it, or how much of it is what.

tools/predict.py configs/cifar10_pape.py work_dirs/cifar10_pape/best.pth photo.jpg folder/ [--out out.json]
tools/predict.py configs/modelnet40_pape.py work_dirs/modelnet40_pape/best.pth chair.off scan.ply --show-dir seen
tools/predict.py configs/coco_pape.py work_dirs/coco_pape/best.pth photo.jpg --show-dir seen --show-score 0.5

tools/predict.py work_dirs/gen1_pape/config.py work_dirs/gen1_pape/best.pth drive_td.dat --show-dir seen

A detector's boxes are x1, y1, x2, y2 in pixels of the file; those below --show-score are in --out alone.
Files are of any kind that the model's modalities read: images, clouds (.txt, .xyz, .npy, .off, .ply), videos, event
recordings, your own. What cannot be read is named and left out, and the exit code is 1. In a recording, boxes are those
of its end; --cfg-options test_dataloader.dataset.transforms.0.until=3.5 asks about another second.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import torch

from ndformer.framework.answers import gallery
from ndformer.framework.engine.building import build_model
from ndformer.framework.engine.programs import output, show_dir
from ndformer.framework.engine.programs.cli import config_arguments, config_from, run
from ndformer.framework.engine.programs.files import Preparation
from ndformer.framework.engine.run import of_tokens, write_predictions
from ndformer.framework.engine.training import checkpoint
from ndformer.framework.errors import DataError


@torch.no_grad()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    config_arguments(parser)
    checkpoint.arguments(parser)
    parser.add_argument("files", metavar="FILE", type=Path, nargs="+")
    parser.add_argument("--top", type=int, default=3, help="how many classes to name")
    parser.add_argument("--out", metavar="FILE", type=Path, help=".csv or .json")
    show_dir.arguments(parser)
    given = parser.parse_args()
    cfg = config_from(given)
    if given.top < 1:
        raise DataError(f"--top names 1 class or more, got {given.top}")
    if given.out is not None:
        output.ready(given.out, output.TABLES)
    show_dir.check(given)
    model = build_model(cfg).eval()
    prepared = Preparation(cfg, model)
    samples = prepared.samples_in(given.files)
    content = checkpoint.load(given.checkpoint)
    checkpoint.load_weights(model, content, given.checkpoint, given.resize_positions)
    predictions, read, unread = [], [], []
    for files in samples:
        try:
            batch = prepared(files)
        except DataError as error:
            unread.append(str(error))
            if len(samples) > 1:
                print(f"predict: {error}", file=sys.stderr, flush=True)
            continue
        predictions += model.val_step(batch)
        read.append(files)
        named = gallery.in_words(predictions[-1], content["classes"], given.top, given.show_score)
        print(f"{' '.join(map(str, files))}  {named}", flush=True)
    if len(samples) == len(unread) == 1:
        raise DataError(unread[0])
    if given.out is not None:
        write_predictions(given.out, predictions, content["classes"])
        print(given.out)
    if given.show_dir is not None and of_tokens(predictions):
        pack = next(step for step in prepared.steps[prepared.modality_of(read[0][0])] if hasattr(step, "show"))
        given.show_dir.mkdir(parents=True, exist_ok=True)
        for (path, *_), one in list(zip(read, predictions))[: given.show_count]:
            raw = prepared.adapters[prepared.modality_of(path)].open(path) | dict(path=str(path))
            pack.show(given.show_dir / path.stem, raw, one["predicted"].long().numpy(), content["classes"])
        print(given.show_dir)
    elif given.show_dir is not None:
        picture = lambda i: prepared.picture(read[i], gallery.SIZE)
        gallery.show(given.show_dir, predictions, content["classes"], picture, given.show_count, given.show_score)
        print(given.show_dir)
    if unread:
        raise DataError(f"{len(unread)} of {len(samples)} files are left out, the sentences above say why")


if __name__ == "__main__":
    run(main)
