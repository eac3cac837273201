"""Test trained image models at other input sizes, with and without position interpolation.

    tools/extrapolate.py configs/cifar10_pape.py work_dirs/cifar10_pape/best.pth --sizes 32 48 64 96
    tools/extrapolate.py work_dirs/compare_mnist_pape/*_seed? --sizes 28 40 56 84

A CHECKPOINT is a .pth file, or a run's folder for its best.pth; without CONFIG, the config.json beside it counts.
Several are drawn over each other; those of one encoding are averaged. Leaves extrapolate.json, .md and .png.
"""

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

from ndformer.framework.engine.building import prepare_data
from ndformer.framework.engine.programs.cli import config_arguments, config_from, device_argument, new_parser, run
from ndformer.framework.engine.studies import extrapolate
from ndformer.framework.errors import DataError


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = new_parser(__doc__)
    config_arguments(parser)
    device_argument(parser)
    parser.add_argument("checkpoints", metavar="CHECKPOINT", type=Path, nargs="*")
    parser.add_argument("--sizes", metavar="S", type=int, nargs="+", required=True, help="in pixels, the shorter side")
    parser.add_argument("--metric", metavar="NAME", help="another value than the main one: mAP50")
    parser.add_argument("--out", metavar="DIR", type=Path, help="default: where the checkpoints are")
    return parser.parse_args(arguments)


def checkpoints(given: argparse.Namespace) -> list[tuple[Path, Path]]:
    """(config, checkpoint) of all."""
    paths = [path / "best.pth" if path.is_dir() else path for path in given.checkpoints]
    if given.config.suffix in (".py", ".json"):
        if not paths:
            raise DataError(f"no CHECKPOINT: name one after {given.config}, or run folders instead of both")
        return [(given.config, path) for path in paths]
    first = given.config / "best.pth" if given.config.is_dir() else given.config
    found = [(path.with_name("config.py"), path) for path in (first, *paths)]
    for config, path in found:
        if path.is_file() and not (config.is_file() or config.with_suffix(".json").is_file()):
            raise DataError(f"no config.json beside {path}: name its CONFIG before it")
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    given = parse(arguments)
    found = checkpoints(given)
    for _, path in found:
        if not path.is_file():
            raise DataError(f"no checkpoint at {path}: train first, or name a run's folder or a .pth file")
    tested = []
    for number, (config, path) in enumerate(found, 1):
        given.config = config
        cfg = config_from(given, ["test", "train"])
        prepare_data(cfg, given.sample)
        tested.append(extrapolate.extrapolate(cfg, path, sorted(set(given.sizes)), given.metric))
        print(f"[{number}/{len(found)}] {tested[-1].encoding}, {path}", flush=True)
    metric = tested[0].metric
    rows = extrapolate.summarised(tested)
    trained = sorted({min(one.trained) for one in tested})
    tables = extrapolate.text(rows, metric, " and ".join(map(str, trained)))
    out = given.out or Path(os.path.commonpath([path.parent for _, path in found]))
    extrapolate.save(out, tested, rows, tables)
    extrapolate.draw(out / "extrapolate.png", rows, metric, trained)
    print(f"\n{tables}\n{out / 'extrapolate.md'}  {out / 'extrapolate.json'}  {out / 'extrapolate.png'}")


if __name__ == "__main__":
    run(main)
