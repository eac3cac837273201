#!/usr/bin/env python
"""Test a checkpoint: print the metrics on the test set.

    ndformer test work_dirs/cifar10_pape/config.py work_dirs/cifar10_pape/best.pth [--out predictions.csv]
    ndformer test configs/cifar10_pape.py work_dirs/cifar10_pape/best.pth --show-dir seen     with pictures
    ndformer test configs/coco_pape.py work_dirs/coco_pape/best.pth --classwise --out found.json --show-dir seen

A detector's .json is a list of detections in COCO's format, for ndformer eval coco; --show-score only affects pictures.
A run's config.py includes options such as --sample; it is read from the config.json next to it and not executed.
"""

import sys
from pathlib import Path

from ndformer.cli import output, show_dir
from ndformer.cli.program import config_arguments, config_from, device_argument, new_parser, run
from ndformer.framework.answers import gallery
from ndformer.framework.answers.tables import write_table
from ndformer.framework.data.dataset import TEST_IS_VAL
from ndformer.framework.data.fingerprint import warn_changed_data
from ndformer.framework.engine.building import (
    STAND_IN,
    build_model,
    check_classes,
    dataset_name,
    on_stand_in,
    prepare_data,
    with_targets,
)
from ndformer.framework.engine.run import build_loader, evaluate
from ndformer.framework.engine.training import checkpoint
from ndformer.framework.engine.training.evaluate import as_line
from ndformer.framework.engine.training.loading import all_bad, print_bad
from ndformer.framework.engine.training.progress import with_stderr_progress
from ndformer.framework.errors import NothingLeftError
from ndformer.framework.pictures.samples import DatasetSource


def main() -> None:
    parser = new_parser(__doc__)
    config_arguments(parser)
    device_argument(parser)
    checkpoint.arguments(parser)
    parser.add_argument("--out", metavar="FILE", type=Path, help="predictions of all samples, as .csv or .json")
    parser.add_argument(
        "--classwise", action="store_true", help="also the metrics of each class, where the metric has them"
    )
    show_dir.arguments(parser)
    args = parser.parse_args()
    cfg = config_from(args, ["test"])
    if args.out is not None:
        output.ready(args.out, output.TABLES)
    show_dir.check(args)
    content = checkpoint.load(args.checkpoint)
    model = build_model(cfg, class_names=content.get("classes"))
    checkpoint.load_weights(model, content, args.checkpoint, args.resize_positions)
    prepare_data(cfg, args.sample)
    loader = build_loader(cfg, "test", content.get("classes", ()))
    check_classes(model, loader)
    cfg = with_targets(cfg, loader.data)
    warn_changed_data(content, loader.data, args.checkpoint)
    result = evaluate(cfg, model, with_stderr_progress(loader, "test"))
    print(f"test: {len(loader.data):,} samples of {dataset_name(cfg)}", file=sys.stderr, flush=True)
    print(as_line(result.values, result.quantities), flush=True)
    for remark in filter(None, (metric.remark for metric in result.metrics)):
        print(remark)
    if loader.data.test_is_val:
        print(TEST_IS_VAL)
    if on_stand_in(cfg):
        print(STAND_IN)
    for metric in result.metrics if args.classwise else ():
        table = metric.views(None, loader.data.classes)
        if table is not None:
            print(table)
    for name in model.joint_modalities:
        model.masked = {name}
        try:
            line = evaluate(cfg, model, with_stderr_progress(loader, f"without {name}")).line
        except NothingLeftError:
            line = "samples have no other modality"
        print(f"without {name}:  {line}", flush=True)
    model.masked, data = set(), loader.data
    masked = data.masked
    for name, sensors in data.maskable.items():
        if not masked.issuperset(sensors):
            data.masked = masked.union(sensors)
            loader.restart()
            line = evaluate(cfg, model, with_stderr_progress(loader, f"without {name}")).line
            print(f"without {name}:  {line}", flush=True)
    data.masked = masked
    loader.restart()
    print_bad(all_bad(dict(test=loader)), "ndformer check_data lists all")
    if args.out is not None:
        is_coco = args.out.suffix == ".json" and data.categories is not None
        if not is_coco or not any(metric.export(args.out, data.categories or ()) for metric in result.metrics):
            write_table(args.out, result.answers, data.classes)
        print(args.out)
    if args.show_dir is not None:
        source = DatasetSource(data, loader.bad)
        gallery.show(args.show_dir, result.answers, data.classes, source, args.show_count, args.show_score)
        print(args.show_dir)
        if hint := show_dir.threshold_warning(result.answers, args.show_score, content.get("metrics", {})):
            print(f"test: {hint}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    run(main)
