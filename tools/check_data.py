#!/usr/bin/env python
"""Read all samples of a config's datasets and report which cannot be used, before a long training.

    python tools/check_data.py configs/modelnet40_pape.py --workers 8
    python tools/check_data.py configs/modelnet40_pape.py --sample --splits train

Exit code 1 where something is wrong. Training stops at a bad sample, or with skip_bad=True in a loader goes on without.
"""

from ndformer.framework.data.dataset import SPLITS
from ndformer.framework.engine.building import prepare_data
from ndformer.framework.engine.programs.check import MOST, check_split
from ndformer.framework.engine.programs.cli import config_arguments, config_from, new_parser, run
from ndformer.framework.errors import DataError
from ndformer.framework.foreign import single_line
from ndformer.framework.system import processes


def main() -> None:
    parser = new_parser(__doc__)
    config_arguments(parser)
    parser.add_argument(
        "--workers", type=int, default=processes.cores(), help="processes that read; default: all cores"
    )
    parser.add_argument("--splits", nargs="+", choices=SPLITS, default=SPLITS)
    parser.add_argument("--show", type=int, default=20, help="how many bad samples to name")
    given = parser.parse_args()
    cfg = config_from(given, given.splits)
    prepare_data(cfg, given.sample)
    total = 0
    for split in given.splits:
        count, wrong = check_split(cfg, split, given.workers)
        total += len(wrong)
        stopped = f"; with {MOST} bad ones it ends here" if len(wrong) == MOST else ""
        print(f"{split}: {count} samples, {len(wrong)} bad{stopped}")
        for what in wrong[: given.show]:
            print(f"  {single_line(what)}")
        if len(wrong) > given.show:
            print(f"  and {len(wrong) - given.show} more: --show {len(wrong)} names them all")
    if total:
        raise DataError(f"{total} samples cannot be used: replace them, or train with skip_bad=True in the loaders")


if __name__ == "__main__":
    run(main)
