#!/usr/bin/env python
"""Write an interactive attention viewer: click a token to see what every layer and head attends to, and why.

    python tools/explore.py configs/cifar10_pape.py work_dirs/cifar10_pape/best.pth photo.jpg
    python tools/explore.py configs/mnist_pape.py work_dirs/mnist_pape_sample/best.pth 7 8 --sample       test samples
    python tools/explore.py configs/ucf101_pape.py work_dirs/ucf101_pape/best.pth run.mp4 --layers 1 6 12
    python tools/explore.py configs/cifar10_pape.py PAPE.pth photo.jpg --beside ROPE/config.py ROPE/best.pth

Images, point clouds, videos and event streams, for models whose layers see all tokens of a sample. The page is one
file that opens anywhere, without a network: attention is computed in it, from queries, keys and what the encoding's
terms are made of. Its size goes with tokens x layers: --layers takes fewer. docs/how-to/explore.md says how to read it.
"""

import argparse
import warnings
from collections.abc import Sequence
from pathlib import Path

from ndformer.framework.engine.config.load import load
from ndformer.framework.engine.config.shipped import config_path
from ndformer.framework.engine.programs import output
from ndformer.framework.engine.programs.cli import config_arguments, config_from, device_argument, new_parser, run
from ndformer.lab import explore

LARGE = 50e6  # bytes


def arguments() -> argparse.ArgumentParser:
    parser = new_parser(__doc__)
    config_arguments(parser)
    device_argument(parser)
    parser.add_argument("checkpoint", metavar="CHECKPOINT", type=Path)
    parser.add_argument("files", metavar="FILE", nargs="+", help="files, or numbers of test samples")
    parser.add_argument("--beside", metavar=("CONFIG", "CHECKPOINT"), nargs=2, help="a second model of the same files")
    parser.add_argument("--layers", metavar="L", type=int, nargs="+", default=[], help="these alone, from 1 (all)")
    parser.add_argument("--out", metavar="FILE", type=Path, default=Path("explorer.html"), help="(explorer.html)")
    return parser


def main(given_arguments: Sequence[str] | None = None) -> None:
    given = arguments().parse_args(given_arguments)
    output.ready(given.out, (".html",))
    sides = [explore.opened(named(given.config), config_from(given, ["test"]), given.checkpoint, given.sample)]
    if given.beside is not None:
        path = config_path(given.beside[0])
        root = [] if given.data_root is None else [f"data_root={given.data_root!r}"]
        cfg = load(path, root, None, given.sample, given.trust_config)
        sides.append(explore.opened(named(path), cfg, Path(given.beside[1]), given.sample))
    explore.write(given.out, sides, given.files, given.layers)
    size = given.out.stat().st_size
    if size > LARGE:
        warnings.warn(
            f"{given.out} has {size / 1e6:.0f} MB, which browsers open slowly: --layers 1 takes one", stacklevel=2
        )
    print(given.out)


def named(config: Path) -> str:
    """That of a run's own config is its folder's."""
    return config.resolve().parent.name if config.stem == "config" else config.stem


if __name__ == "__main__":
    run(main)
