"""The options --show-dir, --show-count and --show-score, for programs that draw predictions."""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from ndformer.cli import output
from ndformer.framework.answer import Answer
from ndformer.framework.answers.boxes import Boxes
from ndformer.framework.errors import DataError


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options to a parser."""
    parser.add_argument(
        "--show-dir", metavar="DIR", type=Path, help="new or empty folder for pictures, wrong predictions first"
    )
    parser.add_argument("--show-count", metavar="N", type=int, default=64, help="maximum number of pictures (64)")
    parser.add_argument(
        "--show-score", metavar="S", type=float, default=0.3, help="minimum score of objects that are drawn (0.3)"
    )


def check(args: argparse.Namespace) -> None:
    """Raise if the options are wrong, before the program's work begins."""
    if args.show_dir is None:
        return
    output.folder(args.show_dir, "--show-dir")
    if args.show_dir.is_dir() and any(args.show_dir.iterdir()):
        raise DataError(f"--show-dir: expected an empty folder, got {args.show_dir}. Give another one, or delete it")
    if args.show_count < 1:
        raise DataError(f"--show-count: expected 1 or more, got {args.show_count}")
    if not 0 <= args.show_score <= 1:
        raise DataError(f"--show-score: expected a number from 0 to 1, got {args.show_score:g}")


def threshold_warning(answers: Sequence[Answer], min_score: float, metrics: Mapping[str, float]) -> str:
    """Return a sentence if samples have no object above the score threshold; else "".

    It has their number, the best score among them and, if `metrics` have it, the threshold with the best F1.
    """
    best = [max(answer.scores.tolist(), default=0.0) for answer in answers if isinstance(answer, Boxes)]
    below = [score for score in best if score < min_score]
    if not below:
        return ""
    sentence = f"{len(below)} of {len(best)} samples have no object with a score of {min_score:g} or more"
    sentence += f", the best is {max(below):.3f}"
    threshold = next((value for name, value in metrics.items() if name.rpartition("/")[2] == "F1_threshold"), -1.0)
    has_f1 = next((value for name, value in metrics.items() if name.rpartition("/")[2] == "F1"), 0.0) > 0
    if threshold < 0 or not has_f1:
        return f"{sentence}; --show-score S draws objects with a score of S or more"
    return f"{sentence}; F1 is best at {threshold:.3f}: --show-score {np.floor(1000 * threshold) / 1000:g}"
