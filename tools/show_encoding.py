#!/usr/bin/env python
"""Draw the attention that an untrained position encoding causes.

python tools/show_encoding.py PaPE m=50 init_radius=3
python tools/show_encoding.py LookHere fov=180 --heads 6 --out cones.png
python tools/show_encoding.py ALiBi --dims 1
python tools/show_encoding.py window.py:Window radius=5
python tools/show_encoding.py PaPE --compare m=2 --compare m=50 --compare m=50 init_radius=3
python tools/show_encoding.py --config mnist_pape --sample
python tools/show_encoding.py "PaPE(m=8)" --config mnist_pape --data-root data/mnist

An additive encoding is drawn as the similarity of its embeddings, a rotary one as the logit of equal queries and keys,
a bias as it is; beside them the attention that positions alone would give. With --config it says which of its waves,
steps and radii the positions of your data reach, and where it is blind there: all else is as for check_coverage.py.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from ndformer.framework.engine.programs import coverage, output
from ndformer.framework.engine.programs.cli import new_parser
from ndformer.framework.engine.programs.naming import find, in_a_sentence, options
from ndformer.framework.pictures.encodings import SIZES, draw
from ndformer.framework.system import atomic
from ndformer.framework.system.pipes import exit_on_closed_pipe


def main(arguments: Sequence[str] | None = None) -> None:
    words = list(sys.argv[1:] if arguments is None else arguments)
    if any(word.partition("=")[0] == "--config" for word in words):
        of_data(words)
        return
    parser = new_parser(__doc__)
    parser.add_argument("encoding", metavar="NAME | MODULE:CLASS | FILE.py:CLASS")
    parser.add_argument("options", metavar="KEY=VALUE", nargs="*", help="its options")
    parser.add_argument("--dims", type=int, choices=SIZES, default=2, help="position dimensions (2)")
    parser.add_argument(
        "--heads", type=int, choices=range(1, 17), metavar="H", default=4, help="how many, each 64 wide (4)"
    )
    parser.add_argument(
        "--compare", metavar="KEY=VALUE", nargs="+", action="append", default=[], help="a column with these options"
    )
    parser.add_argument("--out", type=Path, help="the picture (NAME.png)")
    parser.add_argument("--config", help="what the data of a config reach of it instead; --sample: its small version")
    given = parser.parse_intermixed_args(words)
    out = given.out or Path(f"{given.encoding.rpartition(':')[2]}.png")
    output.ready(out, output.PICTURES)
    compare = [options(column) for column in given.compare]
    picture = draw(find(given.encoding), options(given.options), compare, given.dims, given.heads)
    with atomic.replacing(out) as half:
        picture.savefig(half)
    print(out)


def of_data(words: list[str]) -> None:
    """What the data of a config reach of it."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--config")
    given, rest = parser.parse_known_args(words)
    named = bool(rest) and not rest[0].startswith("-")
    coverage.told(new_parser(__doc__), [given.config, *(["--encoding", *rest] if named else rest)])


if __name__ == "__main__":
    try:
        with exit_on_closed_pipe():
            main()
    except Exception as error:  # whatever a stranger's module may raise
        if os.environ.get("NDFORMER_DEBUG"):
            raise
        sys.exit(f"show_encoding: {in_a_sentence(error)}")
