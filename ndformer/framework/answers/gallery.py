"""A folder of cards: what was said of some samples, those with most mistakes first."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ndformer.framework.answer import Answer, Source


def show(
    folder: Path, answers: Sequence[Answer], classes: Sequence[str], source: Source, count: int, min_score: float = 0.0
) -> None:
    """At most `count`: 000_wrong_bowl_as_cup_NAME.png, 001_2-of-3-found-1-wrong_NAME.png, 002_54-right_NAME.png. Of
    objects, those with a score of `least` or more are drawn."""
    folder.mkdir(parents=True, exist_ok=True)
    for place, i in enumerate(by_mistakes(answers, min_score)[:count]):
        answers[i].save(folder, place, i, source, classes, min_score)


def cards(
    answers: Sequence[Answer], classes: Sequence[str], source: Source, count: int, min_score: float = 0.3
) -> dict[str, Any]:
    """PIL images by what they say: of half of them those with most mistakes, then the best ones."""
    drawn = {}
    for i in worst_and_best(answers, count, min_score):
        says = f"{answers[i].path}, {i}: {answers[i].verdict(classes, min_score)}"
        drawn[says] = answers[i].card(answers[i].below(source, i), classes, min_score)
    return drawn


def worst_and_best(answers: Sequence[Answer], count: int, min_score: float = 0.3) -> list[int]:
    """Numbers of half of them with most mistakes, then of the best ones."""
    order = by_mistakes(answers, min_score)
    return order if len(order) <= count else [*order[: count - count // 2], *order[len(order) - count // 2 :]]


def by_mistakes(answers: Sequence[Answer], min_score: float) -> list[int]:
    mistakes = [answer.mistakes(min_score) for answer in answers]
    return sorted(range(len(answers)), key=lambda i: -mistakes[i])
