#!/usr/bin/env python
"""Write an interactive attention viewer: click a token to see what every layer and head attends to, and why.

    ndformer explore configs/cifar10_pape.py work_dirs/cifar10_pape/best.pth photo.jpg
    ndformer explore configs/mnist_pape.py work_dirs/mnist_pape_sample/best.pth 7 8 --sample       test samples
    ndformer explore configs/ucf101_pape.py work_dirs/ucf101_pape/best.pth run.mp4 --layers 1 6 12
    ndformer explore configs/cifar10_pape.py PAPE.pth photo.jpg --beside ROPE/config.py ROPE/best.pth

For images, point clouds, videos and event streams, and models whose layers attend to all tokens of a sample. The page
is one HTML file that works offline: it computes attention from queries, keys and the encoding's terms. Its size grows
with tokens x layers; --layers selects some layers. docs/how-to/explore.md explains the page.
"""

import argparse
import warnings
from collections.abc import Sequence
from pathlib import Path

from ndformer.cli import output
from ndformer.cli.program import config_arguments, config_from, device_argument, new_parser, run
from ndformer.framework.engine.config.load import load
from ndformer.framework.engine.config.shipped import config_path
from ndformer.lab import explore

LARGE = 50e6  # bytes of a page that browsers open slowly


def arguments() -> argparse.ArgumentParser:
    parser = new_parser(__doc__)
    config_arguments(parser)
    device_argument(parser)
    parser.add_argument("checkpoint", metavar="CHECKPOINT", type=Path)
    parser.add_argument("files", metavar="FILE", nargs="+", help="files, or numbers of test samples")
    beside = "a second model for the same files, and for the same options of test_dataloader and dataset"
    parser.add_argument("--beside", metavar=("CONFIG", "CHECKPOINT"), nargs=2, help=beside)
    parser.add_argument("--layers", metavar="L", type=int, nargs="+", default=[], help="layers to show, from 1 (all)")
    parser.add_argument("--out", metavar="FILE", type=Path, default=Path("explorer.html"), help="page (explorer.html)")
    return parser


def main(words: Sequence[str] | None = None) -> None:
    args = arguments().parse_args(words)
    output.ready(args.out, (".html",))
    replaced = " (replaces the page that was there)" if args.out.exists() else ""
    sides = [explore.opened(named(args.config), config_from(args, ["test"]), args.checkpoint, args.sample)]
    if args.beside is not None:
        path = config_path(args.beside[0])
        data = [option for option in args.cfg_options if option.startswith(("test_dataloader.", "dataset."))]
        options = [*data, *([] if args.data_root is None else [f"data_root={args.data_root!r}"])]
        checkpoint = Path(args.beside[1])
        cfg = load(path, options, None, args.sample, args.trust_config, checkpoint=checkpoint)
        sides.append(explore.opened(named(path), cfg, checkpoint, args.sample))
    explore.write(args.out, sides, args.files, args.layers)
    size = args.out.stat().st_size
    if size > LARGE:
        warnings.warn(
            f"{args.out} has {size / 1e6:.0f} MB, which browsers open slowly: --layers 1 includes one layer",
            stacklevel=2,
        )
    print(f"{args.out}{replaced}")


def named(config: Path) -> str:
    """Return a config's name; for the config in a run's folder, the name of the folder."""
    return config.resolve().parent.name if config.stem == "config" else config.stem


if __name__ == "__main__":
    run(main)
