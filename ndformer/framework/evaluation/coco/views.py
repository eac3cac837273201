"""Details of a detection evaluation: the table of classes, precision-recall curves and the confusion matrix."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ndformer.framework.evaluation.coco.average import F1_IOU, NAMES, RECALLS, THRESHOLDS, Averages
from ndformer.framework.evaluation.coco.match import Detections, Truth, match
from ndformer.framework.pictures.figures import written_figure
from ndformer.framework.pictures.runs import confusion_matrix

MAX_CURVES = 10  # classes with their own line in a plot
MIN_SCORE = 0.3  # of the detections in a confusion matrix


def class_numbers(averages: Averages, classes: Sequence[str]) -> dict[str, dict[str, float]]:
    """Return COCO's twelve numbers of each class by name; a repeated name gets the class number appended."""
    table: dict[str, dict[str, float]] = {}
    for k, name in enumerate(classes):
        table[f"{name} ({k})" if name in table else name] = averages.numbers(k)
    return table


def table(numbers: dict[str, dict[str, float]], columns: Sequence[str] = NAMES) -> str:
    """Return a text table in percent with one row per class, and - where a class has no object of that size."""
    width = max([len("class"), *map(len, numbers)])
    lines = [f"{'class':{width}}" + "".join(f"{name:>7}" for name in columns)]
    for name, row in numbers.items():
        cells = (f"{100 * row[column]:7.1f}" if row[column] >= 0 else "      -" for column in columns)
        lines.append(f"{name:{width}}" + "".join(cells))
    return "\n".join(lines)


def confusion(truth: Truth, detections: Detections, classes: int) -> np.ndarray:
    """Return the confusion matrix (K + 1, K + 1): truth in rows, predictions in columns, background last.

    Detections with a score of at least MIN_SCORE match true boxes of any class, best first. Ignored objects, and
    detections matched to them, are left out.
    """
    detections = detections[detections.score >= MIN_SCORE]
    matches = match(detections.image, detections, truth.image, truth, F1_IOU)  # (D,)
    missed = np.setdiff1d(np.flatnonzero(~truth.out), matches)
    true = np.append(np.where(truth.out, -1, truth.label), classes)[matches]  # background without a match
    rows = np.concatenate([true, truth.label[missed]])
    columns = np.concatenate([detections.label, np.full(len(missed), classes)])[rows >= 0]
    counts = np.bincount(rows[rows >= 0] * (classes + 1) + columns, minlength=(classes + 1) ** 2)
    return counts.reshape(classes + 1, classes + 1)


def draw(folder: Path, averages: Averages, counts: np.ndarray, classes: Sequence[str]) -> None:
    """Write pr_curves.png and confusion_matrix.png."""
    folder.mkdir(parents=True, exist_ok=True)
    names = [*classes, "background"]
    confusion_matrix(folder / "confusion_matrix.png", counts, names, ("nothing there", "missed"))
    precision = averages.precision[0]  # (T, K, R)
    present = np.flatnonzero(precision[0, :, 0] > -1)
    with written_figure(folder / "pr_curves.png", 9.0, 3.6, "precision over recall") as fig:
        left, right = fig.subplots(1, 2, sharey=True)
        for t in range(0, len(THRESHOLDS), 2):
            mean = precision[t, present].mean(0) if len(present) else np.full(len(RECALLS), np.nan)
            left.plot(RECALLS, mean, label=f"IoU {THRESHOLDS[t]:.2f}", lw=1.4)
        ap = precision[0, present].mean(-1)
        for k in present[np.argsort(-ap, kind="stable")][:MAX_CURVES]:
            right.plot(RECALLS, precision[0, k], label=f"{classes[k]} {100 * precision[0, k].mean():.0f}", lw=1.1)
        left.set(title="mean of classes", xlabel="recall", ylabel="precision", ylim=(0, 1.02), xlim=(0, 1))
        beyond = f", the best {MAX_CURVES} of {len(present)}" if len(present) > MAX_CURVES else ""
        right.set(title=f"classes and their AP50 at IoU 0.50{beyond}", xlabel="recall", xlim=(0, 1))
        for axis in (left, right):
            axis.spines[["top", "right"]].set_visible(False)
        left.legend(fontsize=7)
        if len(present):
            right.legend(fontsize=6, loc="center left", bbox_to_anchor=(1.0, 0.5))
