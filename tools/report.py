"""A page of a run, or of several side by side: report.html, which opens anywhere without a network.

    tools/report.py work_dirs/mnist_small_sample
    tools/report.py work_dirs/mnist_small --samples 24                 with samples of its test set, worst and best
    tools/report.py work_dirs/compare_mnist_small/* --out mnist.html   seeds of one kind are a row, with an interval

It has the figures, curves, other pictures of the run, how many samples each class has, what its config says otherwise
than the one that ships, and the command to run it again. --samples tests the run's best.pth once more, and needs the
data.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ndformer.framework.answers.gallery import cards
from ndformer.framework.engine.building import build_model, check_classes, prepare_data
from ndformer.framework.engine.config import kept
from ndformer.framework.engine.config.load import load
from ndformer.framework.engine.programs.cli import device_argument, file_arguments, new_parser, run
from ndformer.framework.engine.run import build_loader, evaluate
from ndformer.framework.engine.studies import report
from ndformer.framework.engine.training import checkpoint
from ndformer.framework.pictures.samples import OfDataset


def main(arguments: Sequence[str] | None = None) -> None:
    parser = new_parser(__doc__)
    parser.add_argument("runs", metavar="RUN", type=Path, nargs="+", help="folders of runs")
    parser.add_argument("--samples", metavar="N", type=int, default=0, help="of the test set, with answers (0)")
    parser.add_argument("--out", metavar="FILE", type=Path, help="(report.html in the run's folder, of several here)")
    device_argument(parser)
    file_arguments(parser)
    given = parser.parse_args(arguments)
    told = [report.read(folder) for folder in given.runs]
    shown = {folder: seen(folder, given.samples) for folder in given.runs} if given.samples else {}
    out = given.out or (given.runs[0] if len(told) == 1 else Path()) / "report.html"
    report.write(out, told, shown)
    print(out)


def seen(folder: Path, count: int) -> dict[str, Any]:
    """Cards of samples of its test set: half of them those with most mistakes, and half the best."""
    cfg = load(folder / kept.DATA)
    prepare_data(cfg, False)
    model = build_model(cfg)
    content = checkpoint.load(folder / checkpoint.BEST)
    checkpoint.load_weights(model, content, folder / checkpoint.BEST)
    loader = build_loader(cfg, "test", content.get("classes", ()))
    check_classes(model, loader)
    answers = evaluate(cfg, model, loader).answers
    return cards(answers, loader.data.classes, OfDataset(loader.data, loader.bad), count)


if __name__ == "__main__":
    run(main)
