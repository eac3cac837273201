#!/usr/bin/env python
"""Draw the attention caused by an untrained position encoding.

    ndformer show_encoding PaPE m=50 init_radius=3
    ndformer show_encoding LookHere fov=180 --heads 6 --out cones.png
    ndformer show_encoding ALiBi --dims 1
    ndformer show_encoding window.py:Window radius=5
    ndformer show_encoding PaPE --compare m=2 --compare m=50 --compare m=50 init_radius=3
    ndformer show_encoding --config mnist_pape --sample
    ndformer show_encoding "PaPE(m=8)" --config mnist_pape --data-root data/mnist

An additive encoding is drawn as the similarity of its embeddings, a rotary one as the logit of equal queries and keys,
a bias as its values; each with the attention that results from positions alone. With --config it reports instead which
waves, table entries and radii the data of a config use, with the options of check_coverage.py.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from ndformer.cli import coverage, output
from ndformer.cli.encoding_pictures import SIZES, draw
from ndformer.cli.naming import find, in_a_sentence, options
from ndformer.cli.program import new_parser
from ndformer.framework.pictures.figures import save_figure
from ndformer.framework.system.pipes import exit_on_closed_pipe


def main(arguments: Sequence[str] | None = None) -> None:
    words = list(sys.argv[1:] if arguments is None else arguments)
    if any(word.partition("=")[0] == "--config" for word in words):
        report_coverage(words)
        return
    parser = new_parser(__doc__)
    parser.add_argument("encoding", metavar="NAME | MODULE:CLASS | FILE.py:CLASS")
    parser.add_argument("options", metavar="KEY=VALUE", nargs="*", help="options of the encoding")
    parser.add_argument("--dims", type=int, choices=SIZES, default=2, help="position dimensions (2)")
    parser.add_argument(
        "--heads", type=int, choices=range(1, 17), metavar="H", default=4, help="number of heads, of 64 channels (4)"
    )
    parser.add_argument(
        "--compare",
        metavar="KEY=VALUE",
        nargs="+",
        action="append",
        default=[],
        help="another column, with these options",
    )
    parser.add_argument("--out", type=Path, help="picture to write (NAME.png)")
    parser.add_argument("--config", help="report coverage by the data of a config instead; --sample: its small version")
    args = parser.parse_intermixed_args(words)
    out = args.out or Path(f"{args.encoding.rpartition(':')[2]}.png")
    output.ready(out, output.PICTURES)
    compare = [options(column) for column in args.compare]
    picture = draw(find(args.encoding), options(args.options), compare, args.dims, args.heads)
    save_figure(out, picture)
    print(out)


def report_coverage(words: list[str]) -> None:
    """Report the coverage of the encoding by the data of a config."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--config")
    args, others = parser.parse_known_args(words)
    has_encoding = bool(others) and not others[0].startswith("-")
    coverage.main(new_parser(__doc__), [args.config, *(["--encoding", *others] if has_encoding else others)])


if __name__ == "__main__":
    try:
        with exit_on_closed_pipe():
            main()
    except Exception as error:  # a user's module may raise anything
        if os.environ.get("NDFORMER_DEBUG"):
            raise
        sys.exit(f"show_encoding: {in_a_sentence(error)}")
