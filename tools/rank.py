#!/usr/bin/env python
"""Join comparisons of several data sets: a table, average ranks with their test, and a critical difference diagram.

    ndformer rank work_dirs/compare_mnist_small work_dirs/compare_sign_digits --baseline PaPE
    ndformer rank docs/results/data/start.json --baseline PaPE --sets mnist_small sign_digits
    ndformer rank work_dirs/comparison work_dirs/compare_ldraw10   add another data set to those joined before

Arguments are work dirs of ndformer compare or of this program, or their .json files. Options of an encoding may differ
from set to set: it is one row if no set has two encodings of its type. Writes comparison.md, comparison.json and
comparison.png.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from ndformer.cli.program import new_parser, run
from ndformer.framework.errors import UnknownNameError, nearest
from ndformer.lab.rank import join
from ndformer.lab.rank_table import Table


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = new_parser(__doc__)
    parser.add_argument("comparisons", metavar="WORK_DIR", type=Path, nargs="+", help="of a comparison, or its .json")
    parser.add_argument("--baseline", metavar="NAME", help="the encoding that gains are over (the first)")
    parser.add_argument("--sets", metavar="SET", nargs="+", help="these alone, in this order (all)")
    parser.add_argument(
        "--out", metavar="DIR", type=Path, default=Path("work_dirs/comparison"), help="(work_dirs/comparison)"
    )
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    args = parse(arguments)
    sets = join(args.comparisons)
    for name in args.sets or ():
        if name not in sets:
            raise UnknownNameError(
                f"no comparison has the data set {name}{nearest(name, sets)} Known: {', '.join(sets)}"
            )
    sets = {name: sets[name] for name in args.sets or sets}
    first = next(iter(next(iter(sets.values())).cells))
    table = Table(sets, args.baseline or first)
    report = table.write(args.out)
    print(f"{report}\n{args.out}/comparison.md, comparison.json{', comparison.png' if table.ranking else ''}")


if __name__ == "__main__":
    run(main)
