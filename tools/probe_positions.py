#!/usr/bin/env python
"""Measure with linear probes how much the features of each layer know of token positions.

    ndformer probe_positions configs/mnist_small.py work_dirs/mnist_small/best.pth
    ndformer probe_positions configs/mnist_pape.py work_dirs/mnist_pape_sample/best.pth --sample --samples 100

Probes read the position of a token, axis by axis, and the relative position of a pair of tokens; for comparison also
from the untrained model, and with permuted positions. Writes probe_positions.json, .md and .png beside the checkpoint.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from ndformer.cli import output
from ndformer.cli.program import config_arguments, config_from, device_argument, new_parser, run
from ndformer.framework.engine.building import STAND_IN, on_stand_in, prepare_data
from ndformer.framework.errors import DataError
from ndformer.lab import probe_positions


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = new_parser(__doc__)
    config_arguments(parser)
    device_argument(parser)
    parser.add_argument("checkpoint", metavar="CHECKPOINT", type=Path)
    parser.add_argument("--samples", metavar="N", type=int, default=200, help="of the test set (200)")
    parser.add_argument("--tokens", metavar="N", type=int, default=64, help="of each sample, at most (64)")
    parser.add_argument("--out", metavar="DIR", type=Path, help="default: where the checkpoint is")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    args = parse(arguments)
    for option, least in (("samples", 2), ("tokens", 2)):
        if getattr(args, option) < least:
            raise DataError(f"--{option} is a number from {least} on, got {getattr(args, option)}")
    cfg = config_from(args, ["test"])
    out = args.out or args.checkpoint.parent
    output.folder(out, "--out")
    prepare_data(cfg, args.sample)
    probed = probe_positions.probe(cfg, args.checkpoint, args.samples, args.tokens)
    tables = probe_positions.text(probed) + f"\n{STAND_IN.capitalize()}.\n" * on_stand_in(cfg)
    probe_positions.save(out, probed, tables)
    probe_positions.draw(out / "probe_positions.png", probed)
    print(f"\n{tables}\n" + "  ".join(str(out / f"probe_positions.{ending}") for ending in ("md", "json", "png")))


if __name__ == "__main__":
    run(main)
