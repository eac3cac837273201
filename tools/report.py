#!/usr/bin/env python
"""Write report.html, one self-contained page, for one run or several side by side.

    ndformer report work_dirs/mnist_small_sample
    ndformer report work_dirs/mnist_small --samples 24          with more samples of its test set
    ndformer report work_dirs/compare_mnist_small/* --out mnist.html
        seeds of one config are one row, with an interval

The page has results, curves, the worst and best samples, attention maps, the encoding before and after training, the
numbers of samples, differences from the shipped config, and the command that trains the run again. Training writes it,
too; --samples tests best.pth again for other samples, which needs the data.
"""

from collections.abc import Sequence
from pathlib import Path

from ndformer.cli import rendered
from ndformer.cli.program import device_argument, file_arguments, new_parser, run
from ndformer.framework.engine.building import build_model, check_classes, prepare_data, with_targets
from ndformer.framework.engine.config import saved
from ndformer.framework.engine.config.load import load
from ndformer.framework.engine.run import build_loader, evaluate
from ndformer.framework.engine.training import checkpoint
from ndformer.framework.engine.training.progress import with_stderr_progress
from ndformer.framework.errors import DataError
from ndformer.lab import report, run_folder


def main(arguments: Sequence[str] | None = None) -> None:
    parser = new_parser(__doc__)
    parser.add_argument("runs", metavar="RUN", type=Path, nargs="+", help="folders of runs")
    parser.add_argument(
        "--samples", metavar="N", type=int, help="of the test set, with predictions (those that training rendered)"
    )
    parser.add_argument("--out", metavar="FILE", type=Path, help="(report.html in the run's folder, of several here)")
    parser.add_argument("--trust-config", action="store_true", help="import the modules that a run's config names")
    device_argument(parser)
    file_arguments(parser)
    args = parser.parse_args(arguments)
    if args.samples is not None and args.samples < 1:
        raise DataError(f"--samples is 1 or more, got {args.samples}")
    if args.samples is not None:
        for folder in args.runs:
            test(folder, args.samples, args.trust_config)
    args.runs = list({folder.resolve(): folder for folder in args.runs}.values())  # a run named twice counts once
    runs = [run_folder.read(folder) for folder in args.runs]
    out = args.out or (args.runs[0] if len(runs) == 1 else Path()) / "report.html"
    report.write(out, runs)
    print(out)


def test(folder: Path, count: int, trusted: bool) -> None:
    """Test a run again, to render samples."""
    run_folder.read(folder)
    cfg = load(folder / saved.DATA, trusted=trusted)
    prepare_data(cfg, False)
    content = checkpoint.load(folder / checkpoint.BEST)
    model = build_model(cfg, class_names=content.get("classes"))
    checkpoint.load_weights(model, content, folder / checkpoint.BEST)
    loader = build_loader(cfg, "test", content.get("classes", ()))
    check_classes(model, loader)
    cfg = with_targets(cfg, loader.data)
    rendered.write(folder, cfg, model, loader, evaluate(cfg, model, with_stderr_progress(loader, "test")), count)


if __name__ == "__main__":
    run(main)
