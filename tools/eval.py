#!/usr/bin/env python
"""Compute metrics from saved predictions, without a model.

    python tools/eval.py coco GT.json DETECTIONS.json
    python tools/eval.py coco GT.json DETECTIONS.json --classwise --out numbers.json --pictures DIR
    python tools/eval.py nuscenes data/nuscenes SUBMISSION.json --version v1.0-mini --split mini_val --out numbers.json

COCO's twelve numbers for boxes, as JSON; fractions, -1 where no object has that size. F1 is the best one over all
classes, of detections with a score of F1_threshold or more. GT.json is a COCO annotation
file, DETECTIONS.json a list of dict(image_id, category_id, bbox=[x, y, width, height], score).

nuScenes' mAP, NDS and mean errors, and those of each class under 'classes', null where it has none; SUBMISSION.json is
what its server takes.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ndformer.framework.engine.programs import cli, output
from ndformer.framework.evaluation.coco import views as coco_views
from ndformer.framework.evaluation.coco.average import evaluate
from ndformer.framework.evaluation.coco.backends import BACKENDS, twelve
from ndformer.framework.evaluation.coco.f1 import best_f1
from ndformer.framework.evaluation.coco.files import read_detections, read_truth
from ndformer.framework.system import atomic
from ndformer.modalities.driving.datasets.nuscenes import average
from ndformer.modalities.driving.datasets.nuscenes.metric import measured
from ndformer.modalities.driving.datasets.nuscenes.submission import read_submission
from ndformer.modalities.driving.datasets.nuscenes.truth import read_split
from ndformer.modalities.driving.formats.splits import VERSIONS


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = cli.new_parser(__doc__)
    protocols = parser.add_subparsers(dest="protocol", metavar="PROTOCOL", required=True)
    coco = protocols.add_parser("coco", help="boxes in images")
    coco.add_argument("truth", metavar="GT.json", type=Path)
    coco.add_argument("detections", metavar="DETECTIONS.json", type=Path)
    coco.add_argument("--classwise", action="store_true", help="the numbers of each class as well, under 'classes'")
    coco.add_argument("--pictures", metavar="DIR", type=Path, help="pr_curves.png and confusion_matrix.png")
    coco.add_argument("--backend", choices=BACKENDS, default=BACKENDS[0], help="who computes the twelve (builtin)")
    nuscenes = protocols.add_parser("nuscenes", help="boxes in space")
    nuscenes.add_argument("data_root", metavar="DATA_ROOT", type=Path, help="the folder of the tables' folder")
    nuscenes.add_argument("submission", metavar="SUBMISSION.json", type=Path)
    nuscenes.add_argument("--version", choices=VERSIONS, default="v1.0-trainval", help="of the tables (v1.0-trainval)")
    nuscenes.add_argument("--split", default="val", help="an official one: val, mini_val, train ... (val)")
    for protocol in (coco, nuscenes):
        protocol.add_argument("--out", metavar="FILE.json", type=Path, help="the numbers in a file too")
        cli.file_arguments(protocol)
    return parser.parse_args(arguments)


def of_images(given: argparse.Namespace) -> dict[str, Any]:
    truth = read_truth(given.truth)
    detections = read_detections(given.detections, truth)
    size = len(truth.images), len(truth.classes)
    numbers: dict[str, Any] = dict(twelve(truth.boxes, detections, *size, given.backend))
    numbers |= best_f1(truth.boxes, detections, size[0])
    if given.classwise or given.pictures is not None:
        averages = evaluate(truth.boxes, detections, *size)
        if given.classwise:
            numbers["classes"] = coco_views.class_numbers(averages, truth.classes)
        if given.pictures is not None:
            counts = coco_views.confusion(truth.boxes, detections, size[1])
            coco_views.draw(given.pictures, averages, counts, truth.classes)
    return numbers


def of_drives(given: argparse.Namespace) -> dict[str, Any]:
    tokens, truth, racks, ego = read_split(given.data_root, given.version, given.split)
    classes = measured(truth, read_submission(given.submission, tokens), ego, racks)
    return average.summary(classes) | dict(classes=average.class_numbers(classes))


def main(arguments: Sequence[str] | None = None) -> None:
    given = parse(arguments)
    if given.out is not None:
        output.ready(given.out, (".json",))
    numbers = (of_images if given.protocol == "coco" else of_drives)(given)
    text = json.dumps(numbers, indent=1)
    if given.out is not None:
        atomic.write(given.out, text + "\n")
    print(text)


if __name__ == "__main__":
    cli.run(main)
