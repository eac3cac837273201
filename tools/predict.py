#!/usr/bin/env python
"""Predict classes, boxes, masks or properties for files or folders.

    ndformer predict qm9-small water.xyz
    ndformer predict configs/cifar10_pape.py work_dirs/cifar10_pape/best.pth photo.jpg folder/ [--out out.json]
    ndformer predict configs/modelnet40_pape.py work_dirs/modelnet40_pape/best.pth chair.off scan.ply --show-dir seen
    ndformer predict configs/coco_pape.py work_dirs/coco_pape/best.pth photo.jpg --show-dir seen --show-score 0.5
    ndformer predict work_dirs/gen1_pape/config.py work_dirs/gen1_pape/best.pth drive_td.dat --show-dir seen

A detector's boxes are x1, y1, x2, y2 in pixels of the file; boxes below --show-score are only in --out. If no box is
above it, the threshold with the best F1 on the validation set is printed.
Files are of any format that the model's modalities read: images, clouds and folders of scenes
(docs/get-started/custom-clouds.md lists the formats), videos, event recordings, or your own. Files that
cannot be read are listed and skipped, and the exit code is 1. In a recording, boxes are those at its end; --cfg-options
test_dataloader.dataset.transforms.0.until=3.5 selects another second.
"""

import sys
from pathlib import Path

import torch

from ndformer.cli import output, show_dir
from ndformer.cli.program import config_arguments, config_from, device_argument, new_parser, run
from ndformer.framework.answer import Answer
from ndformer.framework.answers import gallery
from ndformer.framework.answers.tables import write_table
from ndformer.framework.engine.building import build_model, dataset_kind
from ndformer.framework.engine.inputs import FileSource, Preparation
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
    parser.add_argument("--top", type=int, default=3, help="number of classes to print (3)")
    parser.add_argument("--out", metavar="FILE", type=Path, help="predictions as .csv or .json")
    show_dir.arguments(parser)
    args = parser.parse_args()
    cfg = config_from(args, ["test"])
    if args.top < 1:
        raise DataError(f"--top: expected 1 or more, got {args.top}")
    if args.out is not None:
        output.ready(args.out, output.TABLES)
    show_dir.check(args)
    content = checkpoint.load(args.checkpoint)
    model = build_model(cfg, class_names=content.get("classes")).eval()
    prepared = Preparation(cfg, model)
    samples = prepared.samples_in(args.files)
    checkpoint.load_weights(model, content, args.checkpoint, args.resize_positions)
    count = sum(head.classes for head in model.modules() if isinstance(head, Head))
    prepared.train_fingerprint = content.get("data", {}).get("train", {})
    classes = contents.class_names(content, args.checkpoint, count)
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
        if not read and answers[-1].legend:
            print(f"predict: {answers[-1].legend}", file=sys.stderr, flush=True)
        read.append(files)
        text = answers[-1].words(classes, args.top, args.show_score)
        print(f"{' '.join(map(printable, files))}  {printable(text)}", flush=True)
    if args.out is not None:
        write_table(args.out, answers, classes, ANSWERS.get(dataset_kind(cfg).answer))
        print(args.out)
    if len(samples) == len(unread) == 1:
        raise DataError(unread[0])
    if args.show_dir is not None:
        source = FileSource(prepared, read, classes)
        gallery.show(args.show_dir, answers, classes, source, args.show_count, args.show_score)
        print(args.show_dir)
    if hint := show_dir.threshold_warning(answers, args.show_score, content.get("metrics", {})):
        print(f"predict: {hint}", file=sys.stderr, flush=True)
    if unread:
        raise DataError(f"{len(unread)} of {len(samples)} files could not be read, for the reasons above")


if __name__ == "__main__":
    run(main)
