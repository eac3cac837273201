#!/usr/bin/env python
"""Report which waves, table entries and radii of an encoding the data of a config use, and what to set.

    ndformer check_coverage configs/mnist_pape.py --sample --encoding AxialRoPE
    ndformer check_coverage configs/modelnet40_pape.py --data-root data/modelnet40 \\
        --encoding "RelativeBias(reach=8)"

It measures the distances between the tokens of a few batches, and the extent of a sample. A wave that hardly turns over
the extent is almost constant; one that turns more than half around between two tokens is aliased. A table entry is used
or not. A radius is shorter than the token spacing, covers some tokens, or covers all of them.
"""

from collections.abc import Sequence

from ndformer.cli import coverage
from ndformer.cli.program import new_parser, run


def main(arguments: Sequence[str] | None = None) -> None:
    coverage.main(new_parser(__doc__), arguments)


if __name__ == "__main__":
    run(main)
