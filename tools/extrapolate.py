#!/usr/bin/env python
"""Test trained image models at other input sizes, with and without scaling their positions.

    ndformer extrapolate configs/cifar10_pape.py work_dirs/cifar10_pape/best.pth --sizes 32 48 64 96
    ndformer extrapolate work_dirs/compare_mnist_pape/*_seed? --sizes 28 40 56 84 --scalings none linear ntk yarn
    ndformer extrapolate work_dirs/mnist_pape --heights 28 42 56 --widths 28 42 56    # drawn as a map

A CHECKPOINT is a .pth file, or a run's folder for its best.pth; without CONFIG, the config.json beside it is used.
Checkpoints of one encoding are averaged. Writes extrapolate.json, .md and .png. Where sizes include rectangles and
squares, it reports the aspect gap: the mean over rectangles of the score minus that of the square of equal area,
which is interpolated linearly, in its side, between measured squares.
"""

import argparse
import itertools
import os
from collections.abc import Sequence
from pathlib import Path

from mmengine.config import Config

from ndformer.cli.program import check_folder, config_arguments, config_from, device_argument, new_parser, run
from ndformer.framework.encoding.scaling import KINDS
from ndformer.framework.engine.building import STAND_IN, on_stand_in, prepare_data
from ndformer.framework.engine.config.differences import relevant_changes
from ndformer.framework.engine.config.text import as_argument
from ndformer.framework.errors import DataError
from ndformer.framework.foreign import check_not_special
from ndformer.lab import aspect_gap, extrapolate, extrapolate_table


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = new_parser(__doc__)
    config_arguments(parser)
    device_argument(parser)
    parser.add_argument("checkpoints", metavar="CHECKPOINT", type=Path, nargs="*")
    parser.add_argument(
        "--sizes", metavar="S", type=size, nargs="+", default=[], help="in pixels, the shorter side or HEIGHTxWIDTH"
    )
    parser.add_argument("--heights", metavar="H", type=int, nargs="+", default=[], help="every height with every width")
    parser.add_argument("--widths", metavar="W", type=int, nargs="+", default=[], help="in pixels")
    parser.add_argument(
        "--scalings",
        nargs="+",
        choices=["none", *KINDS],
        default=list(extrapolate.SCALINGS),
        help="of positions: none, linear (interpolation), and of rotary encodings ntk and yarn",
    )
    parser.add_argument("--metric", metavar="NAME", help="a metric other than the main one: mAP50")
    parser.add_argument("--out", metavar="DIR", type=Path, help="default: where the checkpoints are")
    parser.add_argument("--onto", metavar="DIR", type=Path, help="as --out, adding to the runs there")
    args = parser.parse_args(arguments)
    if bool(args.heights) != bool(args.widths) or bool(args.sizes) == bool(args.heights):
        parser.error("expected --sizes, or --heights and --widths")
    args.sizes = args.sizes or list(itertools.product(args.heights, args.widths))
    return args


def size(word: str) -> extrapolate.Size:
    sides = word.split("x")
    if len(sides) > 2 or not all(side.isascii() and side.isdigit() for side in sides):
        raise argparse.ArgumentTypeError(f"a size is 224, or 224x448 for height x width, not {word!r}")
    return int(word) if len(sides) == 1 else (int(sides[0]), int(sides[1]))


def checkpoints(args: argparse.Namespace) -> list[tuple[Path, Path]]:
    """Return the config and checkpoint of each model."""
    paths = [path / "best.pth" if path.is_dir() else path for path in args.checkpoints]
    if args.config.suffix in (".py", ".json"):
        if not paths:
            raise DataError(f"no CHECKPOINT. Name one after {args.config}, or name run folders only")
        return [(args.config, path) for path in paths]
    first = args.config / "best.pth" if args.config.is_dir() else args.config
    found = [(path.with_name("config.py"), path) for path in (first, *paths)]
    for config, path in found:
        if path.is_file() and not (config.is_file() or config.with_suffix(".json").is_file()):
            raise DataError(f"no config.json beside {path}. Name its CONFIG first")
    return found


def _repeats(cfg: Config) -> tuple[str, int]:
    return as_argument(cfg.model.backbone.get("encoding")), cfg.seed


def main(arguments: Sequence[str] | None = None) -> None:
    args = parse(arguments)
    check_folder("--onto", args.onto)
    found = checkpoints(args)
    for _, path in found:
        check_not_special(path)
        if not path.is_file():
            raise DataError(f"no checkpoint at {path}. Train first, or name a run's folder or a .pth file")
    tested, generated = [], False
    cfgs: dict[Path, Config] = {}
    for args.config, args.checkpoint in found:
        cfg = cfgs[args.checkpoint] = config_from(args, ["test", "train"])
        same = [path for path in cfgs if _repeats(cfgs[path]) == _repeats(cfg) and path != args.checkpoint]
        if same:
            raise DataError(
                f"{same[0]} and {args.checkpoint} are both {' with seed '.join(map(str, _repeats(cfg)))}: a table has "
                "the mean over seeds. Name runs of one setting"
            )
        first = next(path for path in cfgs if _repeats(cfgs[path])[0] == _repeats(cfg)[0])
        changed = [name for name, _, _ in relevant_changes(cfgs[first].to_dict(), cfg.to_dict())]
        changed = [name for name in changed if name != "seed" and not name.endswith(".fold")]
        if changed:
            raise DataError(
                f"{first} and {args.checkpoint} differ in {', '.join(changed[:3])}: a table has the mean over seeds. "
                "Name runs of one setting"
            )
    for number, (path, cfg) in enumerate(cfgs.items(), 1):
        prepare_data(cfg, args.sample)
        generated = generated or on_stand_in(cfg)
        tested.append(extrapolate.extrapolate(cfg, path, args.sizes, args.metric, args.scalings))
        print(f"[{number}/{len(cfgs)}] {tested[-1].encoding}, {path}", flush=True)
    if args.onto:
        tested = extrapolate_table.add_earlier(tested, args.onto)
    metric, quantity = tested[0].metric, tested[0].quantity
    rows, sizes = extrapolate_table.summarize(tested), extrapolate_table.shapes(tested)
    train_shapes = sorted({one.train_shape for one in tested})
    sides = " and ".join(str(h) if h == w else f"{h}x{w}" for h, w in train_shapes)
    tables = (
        extrapolate_table.text(rows, list(sizes), metric, quantity, sides)
        + (aspect_gap.text(aspect_gap.gaps(tested), quantity) or aspect_gap.missing_note(tested))
        + f"\n{STAND_IN.capitalize()}.\n" * generated
    )
    out = args.onto or args.out or Path(os.path.commonpath([path.parent.absolute() for _, path in found]))
    extrapolate_table.save(out, tested, rows, tables)
    counts = extrapolate_table.tokens(tested)
    chart = extrapolate_table.Chart(rows, sizes, metric, quantity, train_shapes, counts)
    extrapolate_table.draw(out / "extrapolate.png", chart)
    print(f"\n{tables}\n{out / 'extrapolate.md'}  {out / 'extrapolate.json'}  {out / 'extrapolate.png'}")


if __name__ == "__main__":
    run(main)
