"""Pictures of samples, alone or with what a model says of them.

A transform that packs a modality knows what it looks like: `of` names what it packs, picture(sample, size) gives
(H, W, 3) uint8, `size` high where the sample has no size of its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ndformer.framework.answers import boxes as gallery_boxes
from ndformer.framework.answers import pixels as gallery_masks
from ndformer.framework.data.dataset import Dataset
from ndformer.framework.errors import DataError
from ndformer.framework.pictures.cards import EDGE, GREY, INK, LINE, OTHER, RIGHT, SIZE, WRONG, fitted, font, shortened
from ndformer.framework.pictures.samples import _each

LEAST, BAR, NAMES = 230, 90, 3  # the least width of a card, the longest bar, and how many classes are named


# ------------------------------------------------------------------------------------------------------- the sample


# ------------------------------------------------------------------------------------------------ what is said of it


def classes_of(prediction: dict[str, Any], classes: list[str]) -> list[str]:
    """The names that a prediction chose from: with several tasks, those of its own."""
    start = f"{prediction['task']}: " if "task" in prediction else ""
    found = [name.removeprefix(start) for name in classes if name.startswith(start)]
    if start and not found:
        raise DataError(f"this checkpoint has no classes of '{prediction['task']}', on which it was not trained")
    return found


def first_wrong(predictions: Sequence[dict[str, Any]]) -> list[int]:
    """Numbers: of the wrong ones, the surest first; of the right ones, the least sure first; of those without truth."""

    def order(i: int) -> tuple[int, float]:
        one = predictions[i]
        sure = float(one["scores"].max())
        if one.get("label", -1) < 0:
            return 2, 0.0
        return (1, sure) if one["prediction"] == one["label"] else (0, -sure)

    return sorted(range(len(predictions)), key=order)


def in_words(prediction: dict[str, Any], classes: list[str], top: int, least: float) -> str:
    """The `top` likeliest classes; or the objects with a score of `least` or more, the surest first; or the classes
    with the largest shares of pixels or points."""
    if "found" in prediction:
        found = prediction["found"]
        rows = zip(found["labels"].tolist(), found["scores"].tolist(), found["boxes"].tolist())
        shown = [
            f"{classes[label]} {score:.3f} ({', '.join(f'{side:.0f}' for side in box)})"
            for label, score, box in rows
            if score >= least
        ]
        return "  ".join(shown) or f"nothing with a score of {least:g} or more"
    names = classes_of(prediction, classes)
    if "predicted" in prediction:
        labels = prediction["predicted"].flatten().long()
        share, which = (labels.bincount(minlength=len(names)) / max(1, len(labels))).topk(min(top, len(names)))
        return "  ".join(f"{names[i]} {100 * p:.0f} %" for p, i in zip(share.tolist(), which.tolist()) if p > 0)
    best = prediction["scores"].topk(min(top, len(names)))
    return "  ".join(f"{names[i]} {p:.3f}" for p, i in zip(best.values.tolist(), best.indices.tolist()))


def show(
    folder: Path,
    predictions: Sequence[dict[str, Any]],
    classes: list[str],
    picture_of: Callable[[int], np.ndarray],
    count: int,
    least: float = 0.0,
) -> None:
    """A card each, at most `count`: 000_wrong_bowl_as_cup_NAME.png, 012_right_cup_NAME.png, 000_cup_NAME.png. Of
    objects, those with a score of `least` or more are drawn."""
    if predictions and "found" in predictions[0]:
        return gallery_boxes.show(folder, predictions, classes, picture_of, count, least)
    if predictions and "predicted" in predictions[0]:
        return gallery_masks.show(folder, predictions, classes, picture_of, count)
    folder.mkdir(parents=True, exist_ok=True)
    for place, i in enumerate(first_wrong(predictions)[:count]):
        one = predictions[i]
        names, name = classes_of(one, classes), str(one.get("path", ""))
        says, truth = names[one["prediction"]], names[one["label"]] if one.get("label", -1) >= 0 else None
        verdict = says if truth is None else f"right_{says}" if says == truth else f"wrong_{truth}_as_{says}"
        file = re.sub(r"[^\w.-]+", "-", f"{place:03}_{verdict}_{Path(name).stem or i}"[:120]).rstrip("-.")
        card(picture_of(i), names, one["scores"].tolist(), truth, name).save(folder / f"{file}.png")


def show_labelled(folder: Path, predictions: Sequence[dict[str, Any]], dataset: Dataset, count: int) -> None:
    """Samples whose tokens have labels, at most `count`, those with most mistakes first. The transform that packs them
    writes their files, show(stem, sample, prediction, classes): 000_NAME.png, 000_NAME_error.ply ..."""
    pack = next((one for one in _each(dataset.transforms) if hasattr(one, "show")), None)
    if pack is None:
        raise DataError("nothing draws labelled samples of this dataset: none of its transforms has a show()")
    folder.mkdir(parents=True, exist_ok=True)

    def right(one: dict[str, Any]) -> float:
        known = one["truth"] >= 0 if "truth" in one else None
        if known is None or not known.any():
            return 1.0
        return float((one["truth"] == one["predicted"])[known].float().mean())

    for place, one in enumerate(sorted(predictions, key=right)[:count]):
        sample, prediction = dataset.read(dataset.records[one["index"]]), one["predicted"].numpy().astype(np.int64)
        if len(prediction) != len(sample["points"]):
            raise DataError(
                f"{one.get('path', 'a sample')} has {len(sample['points'])} points and predictions for "
                f"{len(prediction)}: GridSample takes whole=True in the test set's transforms"
            )
        name = re.sub(r"[^\w.-]+", "-", Path(one.get("path", "")).name or str(one["index"]))
        pack.show(folder / f"{place:03}_{name}", sample, prediction, dataset.classes)


def card(pixels: np.ndarray, names: list[str], scores: list[float], truth: str | None, title: str) -> Any:
    """A picture below what is said of it, above the likeliest classes and the sample's own name. A PIL image."""
    from PIL import Image, ImageDraw

    order = sorted(range(len(scores)), key=lambda i: -scores[i])
    says, shown = names[order[0]], order[:NAMES]
    if truth is not None and names.index(truth) not in shown:
        shown.append(names.index(truth))
    drawn = fitted(pixels, SIZE, 4 * SIZE)
    wide = max(drawn.width, LEAST) + 2 * EDGE
    sheet = Image.new("RGB", (wide, drawn.height + LINE * (len(shown) + 2) + 3 * EDGE + 6), "white")
    pen = ImageDraw.Draw(sheet)
    head = says if truth in (None, says) else f"says {says}, is {truth}"
    colour = INK if truth is None else RIGHT if truth == says else WRONG
    pen.text((EDGE, EDGE - 4), shortened(head, wide - 2 * EDGE, 15), fill=colour, font=font(15))
    top = EDGE + LINE + 4
    sheet.paste(drawn, ((wide - drawn.width) // 2, top))
    top += drawn.height + 8
    room = min(wide - 2 * EDGE - BAR - 44, 180)
    for i in shown:
        tint = RIGHT if names[i] == truth else WRONG if names[i] == says and truth is not None else OTHER
        pen.text((EDGE, top), shortened(names[i], room, 12), fill=INK, font=font(12))
        left = EDGE + room + 6
        pen.rectangle((left, top + 3, left + max(1, round(BAR * scores[i])), top + 13), fill=tint)
        pen.text((left + BAR + 6, top), f"{scores[i]:.2f}", fill=INK, font=font(12))
        top += LINE
    pen.text((EDGE, top + 4), shortened(title, wide - 2 * EDGE, 10, end=True), fill=GREY, font=font(10))
    return sheet
