#!/usr/bin/env python
"""Predict classes, boxes or masks for files or folders.

python tools/predict.py configs/cifar10_pape.py work_dirs/cifar10_pape/best.pth photo.jpg folder/ [--out out.json]
python tools/predict.py configs/modelnet40_pape.py work_dirs/modelnet40_pape/best.pth chair.off scan.ply --show-dir seen
python tools/predict.py configs/coco_pape.py work_dirs/coco_pape/best.pth photo.jpg --show-dir seen --show-score 0.5

python tools/predict.py work_dirs/gen1_pape/config.py work_dirs/gen1_pape/best.pth drive_td.dat --show-dir seen

A detector's boxes are x1, y1, x2, y2 in pixels of the file; those below --show-score are in --out alone. Where that
leaves nothing, the score is said from which on its validation set had the best F1.
Files are of any kind that the model's modalities read: images, clouds (docs/custom-clouds.md has the formats; a scene's
folder is one), videos, event recordings, your own. What cannot be read is named and left out, and the exit code is 1.
In a recording, boxes are those of its end; --cfg-options test_dataloader.dataset.transforms.0.until=3.5 asks about
another second.
"""

import sys
from pathlib import Path

import torch

from ndformer.framework.answer import Answer
from ndformer.framework.answers import gallery
from ndformer.framework.answers.tables import write_table
from ndformer.framework.engine.building import build_model, dataset_kind
from ndformer.framework.engine.inputs import OfFiles, Preparation
from ndformer.framework.engine.programs import output, show_dir
from ndformer.framework.engine.programs.cli import config_arguments, config_from, device_argument, new_parser, run
from ndformer.framework.engine.training import checkpoint, contents
from ndformer.framework.errors import DataError
from ndformer.framework.foreign import printable, single_line
from ndformer.framework.heads.head import Head
from ndformer.framework.registry import ANSWERS


@torch.no_grad()
def main() -> None:
    parser = new_parser(__doc__)
    config_arguments(parser)
    device_argument(parser)
    checkpoint.arguments(parser)
    parser.add_argument("files", metavar="FILE", type=Path, nargs="+")
    parser.add_argument("--top", type=int, default=3, help="how many classes to name")
    parser.add_argument("--out", metavar="FILE", type=Path, help=".csv or .json")
    show_dir.arguments(parser)
    given = parser.parse_args()
    cfg = config_from(given, ["test"])
    if given.top < 1:
        raise DataError(f"--top names 1 class or more, got {given.top}")
    if given.out is not None:
        output.ready(given.out, output.TABLES)
    show_dir.check(given)
    content = checkpoint.load(given.checkpoint)
    model = build_model(cfg, known=content.get("classes")).eval()
    prepared = Preparation(cfg, model)
    samples = prepared.samples_in(given.files)
    checkpoint.load_weights(model, content, given.checkpoint, given.resize_positions)
    named = sum(part.classes for part in model.modules() if isinstance(part, Head))
    prepared.trained_on = content.get("data", {}).get("train", {})
    classes = contents.class_names(content, given.checkpoint, named)
    answers: list[Answer] = []
    read, unread = [], []
    for files in samples:
        try:
            batch = prepared(files)
        except DataError as error:
            unread.append(str(error))
            if len(samples) > 1:
                print(f"predict: {single_line(error)}", file=sys.stderr, flush=True)
            continue
        answers += model.val_step(batch)
        read.append(files)
        named = answers[-1].words(classes, given.top, given.show_score)
        print(f"{' '.join(map(printable, files))}  {printable(named)}", flush=True)
    if given.out is not None:
        write_table(given.out, answers, classes, ANSWERS.get(dataset_kind(cfg).answer))
        print(given.out)
    if len(samples) == len(unread) == 1:
        raise DataError(unread[0])
    if given.show_dir is not None:
        source = OfFiles(prepared, read, classes)
        gallery.show(given.show_dir, answers, classes, source, given.show_count, given.show_score)
        print(given.show_dir)
    if hint := show_dir.too_high(answers, given.show_score, content.get("metrics", {})):
        print(f"predict: {hint}", file=sys.stderr, flush=True)
    if unread:
        raise DataError(f"{len(unread)} of {len(samples)} files are left out, the sentences above say why")


if __name__ == "__main__":
    run(main)
