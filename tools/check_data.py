#!/usr/bin/env python
"""Read all samples of a config's datasets and report which cannot be used, before a long training.

    ndformer check_data configs/modelnet40_pape.py --workers 8
    ndformer check_data configs/modelnet40_pape.py --sample --splits train

Exit code 1 if a sample is bad. Training stops at a bad sample, or skips it with skip_bad=True in a loader.
"""

from ndformer.cli.check import MAX_BAD, check_split
from ndformer.cli.program import config_arguments, config_from, new_parser, run
from ndformer.framework.data.dataset import SPLITS
from ndformer.framework.engine.building import prepare_data
from ndformer.framework.errors import DataError
from ndformer.framework.foreign import single_line
from ndformer.framework.system import processes


def main() -> None:
    parser = new_parser(__doc__)
    config_arguments(parser)
    parser.add_argument("--workers", type=int, default=processes.cores(), help="reading processes; default: all cores")
    parser.add_argument("--splits", nargs="+", choices=SPLITS, default=SPLITS, help="splits to read (all)")
    parser.add_argument("--show", type=int, default=20, help="number of bad samples to print (20)")
    args = parser.parse_args()
    cfg = config_from(args, args.splits)
    prepare_data(cfg, args.sample)
    total, options = 0, list[str]()
    for split in args.splits:
        count, wrong = check_split(cfg, split, args.workers)
        total += len(wrong)
        options += [f"{split}_dataloader.skip_bad=True"] if wrong else []
        stopped = f"; stopped after {MAX_BAD} bad ones" if len(wrong) == MAX_BAD else ""
        print(f"{split}: {count} samples, {len(wrong)} bad{stopped}")
        for error in wrong[: args.show]:
            print(f"  {single_line(error)}")
        if len(wrong) > args.show:
            print(f"  and {len(wrong) - args.show} more: --show {len(wrong)} prints all")
    if total:
        samples, them = ("sample", "it") if total == 1 else ("samples", "them")
        raise DataError(
            f"{total} {samples} cannot be used. Replace {them}",
            f"--cfg-options {' '.join(options)} trains without {them}",
        )


if __name__ == "__main__":
    run(main)
