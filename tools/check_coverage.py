"""What the data of a config use of its encoding: waves, entries of tables, radii - and what to set where it is little.

    tools/check_coverage.py configs/mnist_pape.py --sample --encoding AxialRoPE
    tools/check_coverage.py configs/modelnet40_pape.py --data-root data/modelnet40 --encoding "RelativeBias(reach=8)"

The tokens of a few batches are measured: how far they stand apart, and how far a sample reaches. A wave that hardly
turns over the extent is as constant, one that turns more than half around from token to token is aliased; an entry of a
table is met or not; a radius reaches the nearest token, or sees all alike.
"""

from collections.abc import Sequence
from pathlib import Path

from ndformer.framework.data.dataset import SPLITS
from ndformer.framework.engine.building import prepare_data
from ndformer.framework.engine.programs import coverage, output
from ndformer.framework.engine.programs.cli import config_arguments, config_from, device_argument, new_parser, run
from ndformer.framework.errors import DataError


def main(arguments: Sequence[str] | None = None) -> None:
    parser = new_parser(__doc__)
    config_arguments(parser)
    device_argument(parser)
    parser.add_argument("--split", choices=SPLITS, default="train")
    parser.add_argument("--batches", type=int, default=4, help=f"of up to {coverage.SAMPLES} samples to measure (4)")
    parser.add_argument("--out", metavar="FILE", type=Path, default=Path("coverage.png"), help="the picture")
    given = parser.parse_args(arguments)
    if given.batches < 1:
        raise DataError(f"--batches is 1 or more, got {given.batches}")
    output.ready(given.out, output.PICTURES)
    cfg = config_from(given, [given.split])
    prepare_data(cfg, given.sample)
    found = coverage.looks(cfg, given.split, given.batches)
    print("\n\n".join(coverage.text(look) for look in found))
    if any(look.found for look in found):
        coverage.draw(given.out, found)
        print(f"\n{given.out}")


if __name__ == "__main__":
    run(main)
