"""--show-dir of programs: where cards of answers go, how many, and what is drawn on them."""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from ndformer.framework.answer import Answer
from ndformer.framework.answers.boxes import Boxes
from ndformer.framework.engine.programs import output
from ndformer.framework.errors import DataError


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--show-dir", metavar="DIR", type=Path, help="draw samples there, the wrong ones first")
    parser.add_argument("--show-count", metavar="N", type=int, default=64, help="how many at most (64)")
    parser.add_argument(
        "--show-score", metavar="S", type=float, default=0.3, help="of objects: those from this score on (0.3)"
    )


def check(given: argparse.Namespace) -> None:
    """Before the work: where cards go, and how many."""
    if given.show_dir is None:
        return
    output.folder(given.show_dir, "--show-dir")
    if given.show_dir.is_dir() and any(given.show_dir.iterdir()):
        raise DataError(f"--show-dir {given.show_dir} is not empty: name another folder, or take it away")
    if given.show_count < 1:
        raise DataError(f"--show-count is 1 or more, got {given.show_count}")
    if not 0 <= given.show_score <= 1:
        raise DataError(f"--show-score is from 0 to 1, got {given.show_score:g}")


def too_high(answers: Sequence[Answer], least: float, metrics: Mapping[str, float]) -> str:
    """Where objects of some samples are all below the threshold: how many, the best score, and which threshold had the
    best F1, as far as `metrics` say; else nothing."""
    best = [max(answer.scores.tolist(), default=0.0) for answer in answers if isinstance(answer, Boxes)]
    below = [score for score in best if score < least]
    if not below:
        return ""
    said = f"{len(below)} of {len(best)} have nothing with a score of {least:g} or more, their best is {max(below):.3f}"
    found = next((value for name, value in metrics.items() if name.rpartition("/")[2] == "F1_threshold"), -1.0)
    learnt = next((value for name, value in metrics.items() if name.rpartition("/")[2] == "F1"), 0.0) > 0
    if found < 0 or not learnt:
        return f"{said}; --show-score S shows those from S on"
    return f"{said}; F1 was best from {found:.3f} on: --show-score {np.floor(1000 * found) / 1000:g}"
