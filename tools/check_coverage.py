#!/usr/bin/env python
"""Report which waves, table entries and radii of an encoding the data of a config use, and what to set.

    python tools/check_coverage.py configs/mnist_pape.py --sample --encoding AxialRoPE
    python tools/check_coverage.py configs/modelnet40_pape.py --data-root data/modelnet40 \\
        --encoding "RelativeBias(reach=8)"

The tokens of a few batches are measured: how far they stand apart, and how far a sample reaches. A wave that hardly
turns over the extent is as constant, one that turns more than half around from token to token is aliased; an entry of a
table is met or not; a radius reaches the nearest token, or sees all alike.
"""

from collections.abc import Sequence

from ndformer.framework.engine.programs import coverage
from ndformer.framework.engine.programs.cli import new_parser, run


def main(arguments: Sequence[str] | None = None) -> None:
    coverage.main(new_parser(__doc__), arguments)


if __name__ == "__main__":
    run(main)
