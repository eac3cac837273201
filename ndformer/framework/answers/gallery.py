"""Galleries of predictions: one picture (card) per sample, worst mistakes first."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ndformer.framework.answer import Answer, Source

MIN_SCORE = 0.3  # of the objects in rendered samples


def show(
    folder: Path, answers: Sequence[Answer], classes: Sequence[str], source: Source, count: int, min_score: float = 0.0
) -> None:
    """Write the cards of at most `count` samples: 000_wrong_bowl_as_cup_NAME.png, 001_2-of-3-found_NAME.png, ...

    Objects with a score below `min_score` are not drawn.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for place, i in enumerate(by_mistakes(answers, min_score)[:count]):
        answers[i].save(folder, place, i, source, classes, min_score)


def cards(answers: Sequence[Answer], classes: Sequence[str], source: Source, count: int) -> dict[str, Any]:
    """Return cards as PIL images by caption: the `count / 2` worst samples, then the best ones."""
    images = {}
    for i in worst_and_best(answers, count):
        caption = f"{answers[i].path}, {i}: {answers[i].verdict(classes, MIN_SCORE)}"
        images[caption] = answers[i].card(answers[i].below(source, i), classes, MIN_SCORE)
    return images


def worst_and_best(answers: Sequence[Answer], count: int) -> list[int]:
    """Return the indices of the `count / 2` worst answers, then of the best ones."""
    order = by_mistakes(answers, MIN_SCORE)
    return order if len(order) <= count else [*order[: count - count // 2], *order[len(order) - count // 2 :]]


def by_mistakes(answers: Sequence[Answer], min_score: float) -> list[int]:
    mistakes = [answer.mistakes(min_score) for answer in answers]
    return sorted(range(len(answers)), key=lambda i: -mistakes[i])
