#!/usr/bin/env python
"""Test a checkpoint: print the metrics on the test set.

python tools/test.py work_dirs/cifar10_pape/config.py work_dirs/cifar10_pape/best.pth [--out predictions.csv]
python tools/test.py configs/cifar10_pape.py work_dirs/cifar10_pape/best.pth --show-dir seen     what it took for what
python tools/test.py configs/coco_pape.py work_dirs/coco_pape/best.pth --classwise --out found.json --show-dir seen

A detector's .json is COCO's list of detections, which tools/eval.py coco takes; --show-score is for the pictures alone.
A run's own config.py says how it was trained, --sample included; it is read from the config.json beside it, not run.
"""

import sys
from pathlib import Path

from ndformer.framework.answers import gallery
from ndformer.framework.answers.tables import write_table
from ndformer.framework.data.dataset import TEST_IS_VAL
from ndformer.framework.engine.building import STAND_IN, build_model, check_classes, on_stand_in, prepare_data
from ndformer.framework.engine.programs import output, show_dir
from ndformer.framework.engine.programs.cli import config_arguments, config_from, device_argument, new_parser, run
from ndformer.framework.engine.run import build_loader, evaluate
from ndformer.framework.engine.training import checkpoint, same_data
from ndformer.framework.engine.training.loading import all_bad, tell_bad
from ndformer.framework.engine.training.progress import announced
from ndformer.framework.errors import NothingLeftError
from ndformer.framework.pictures.samples import DatasetSource


def main() -> None:
    parser = new_parser(__doc__)
    config_arguments(parser)
    device_argument(parser)
    checkpoint.arguments(parser)
    parser.add_argument("--out", metavar="FILE", type=Path, help="predictions of every sample, .csv or .json")
    parser.add_argument("--classwise", action="store_true", help="also the numbers of each class, of detectors")
    show_dir.arguments(parser)
    given = parser.parse_args()
    cfg = config_from(given, ["test"])
    if given.out is not None:
        output.ready(given.out, output.TABLES)
    show_dir.check(given)
    content = checkpoint.load(given.checkpoint)
    model = build_model(cfg, known=content.get("classes"))
    checkpoint.load_weights(model, content, given.checkpoint, given.resize_positions)
    prepare_data(cfg, given.sample)
    loader = build_loader(cfg, "test", content.get("classes", ()))
    check_classes(model, loader)
    same_data.warn(content, loader.data, given.checkpoint)
    result = evaluate(cfg, model, announced(loader, "test"))
    print(result.line, flush=True)
    if loader.data.test_is_val:
        print(TEST_IS_VAL)
    if on_stand_in(cfg):
        print(STAND_IN)
    for metric in result.metrics if given.classwise else ():
        table = metric.views(None, loader.data.classes)
        if table is not None:
            print(table)
    for name in model.joined:
        model.masked = {name}
        try:
            said = evaluate(cfg, model, announced(loader, f"without {name}")).line
        except NothingLeftError:
            said = "samples have nothing else"
        print(f"without {name}:  {said}", flush=True)
    model.masked, data = set(), loader.data
    kept = data.masked
    for name, sensors in data.maskable.items():
        if not kept.issuperset(sensors):
            data.masked = kept.union(sensors)
            said = evaluate(cfg, model, announced(loader, f"without {name}")).line
            print(f"without {name}:  {said}", flush=True)
    data.masked = kept
    tell_bad(all_bad(dict(test=loader)), "tools/check_data.py names them all")
    if given.out is not None:
        own = given.out.suffix == ".json" and data.categories is not None
        if not own or not any(metric.export(given.out, data.categories or ()) for metric in result.metrics):
            write_table(given.out, result.answers, data.classes)
        print(given.out)
    if given.show_dir is not None:
        source = DatasetSource(data, loader.bad)
        gallery.show(given.show_dir, result.answers, data.classes, source, given.show_count, given.show_score)
        print(given.show_dir)
        if hint := show_dir.too_high(result.answers, given.show_score, content.get("metrics", {})):
            print(f"test: {hint}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    run(main)
