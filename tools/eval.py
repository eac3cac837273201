#!/usr/bin/env python
"""Compute metrics from saved predictions, without a model.

    ndformer eval coco GT.json DETECTIONS.json
    ndformer eval coco GT.json DETECTIONS.json --classwise --out numbers.json --pictures DIR
    ndformer eval nuscenes data/nuscenes SUBMISSION.json --version v1.0-mini --split mini_val --out numbers.json

coco prints COCO's twelve metrics of boxes as JSON: fractions, -1 if no object has that size. F1 is the best value over
all classes, for detections with a score of F1_threshold or more. GT.json is a COCO annotation file, DETECTIONS.json a
list of dict(image_id, category_id, bbox=[x, y, width, height], score).

nuscenes prints mAP, NDS and mean errors, and those of each class under 'classes', null if undefined. SUBMISSION.json is
a file for the nuScenes server.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ndformer.cli import output, program
from ndformer.framework.evaluation.coco import views as coco_views
from ndformer.framework.evaluation.coco.average import best_f1, evaluate
from ndformer.framework.evaluation.coco.files import read_detections, read_truth
from ndformer.framework.system import atomic
from ndformer.modalities.driving.datasets.nuscenes import average
from ndformer.modalities.driving.datasets.nuscenes.metric import measured
from ndformer.modalities.driving.datasets.nuscenes.submission import read_submission
from ndformer.modalities.driving.datasets.nuscenes.truth import read_split
from ndformer.modalities.driving.formats.splits import VERSIONS


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = program.new_parser(__doc__)
    protocols = parser.add_subparsers(dest="protocol", metavar="PROTOCOL", required=True)
    coco = protocols.add_parser("coco", help="boxes in images")
    coco.add_argument("truth", metavar="GT.json", type=Path)
    coco.add_argument("detections", metavar="DETECTIONS.json", type=Path)
    coco.add_argument("--classwise", action="store_true", help="also the metrics of each class, under 'classes'")
    coco.add_argument("--pictures", metavar="DIR", type=Path, help="folder for pr_curves.png and confusion_matrix.png")
    nuscenes = protocols.add_parser("nuscenes", help="boxes in space")
    nuscenes.add_argument("data_root", metavar="DATA_ROOT", type=Path, help="folder with v1.0-trainval or v1.0-mini")
    nuscenes.add_argument("submission", metavar="SUBMISSION.json", type=Path)
    nuscenes.add_argument("--version", choices=VERSIONS, default="v1.0-trainval", help="tables (v1.0-trainval)")
    nuscenes.add_argument("--split", default="val", help="official split: val, mini_val, train ... (val)")
    for protocol in (coco, nuscenes):
        protocol.add_argument("--out", metavar="FILE.json", type=Path, help="also write the metrics to a file")
        program.file_arguments(protocol)
    return parser.parse_args(arguments)


def coco_metrics(args: argparse.Namespace) -> dict[str, Any]:
    truth = read_truth(args.truth)
    detections = read_detections(args.detections, truth)
    size = len(truth.images), len(truth.classes)
    averages = evaluate(truth.boxes, detections, *size)
    numbers: dict[str, Any] = averages.numbers() | best_f1(truth.boxes, detections, size[0])
    if args.classwise:
        numbers["classes"] = coco_views.class_numbers(averages, truth.classes)
    if args.pictures is not None:
        counts = coco_views.confusion(truth.boxes, detections, size[1])
        coco_views.draw(args.pictures, averages, counts, truth.classes)
    return numbers


def nuscenes_metrics(args: argparse.Namespace) -> dict[str, Any]:
    tokens, truth, racks, ego = read_split(args.data_root, args.version, args.split)
    classes = measured(truth, read_submission(args.submission, tokens), ego, racks)
    return average.summary(classes) | dict(classes=average.class_numbers(classes))


def main(arguments: Sequence[str] | None = None) -> None:
    args = parse(arguments)
    if args.out is not None:
        output.ready(args.out, (".json",))
    numbers = (coco_metrics if args.protocol == "coco" else nuscenes_metrics)(args)
    text = json.dumps(numbers, indent=1)
    if args.out is not None:
        atomic.write(args.out, text + "\n")
    print(text)


if __name__ == "__main__":
    program.run(main)
