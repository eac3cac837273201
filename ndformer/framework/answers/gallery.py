"""A folder of cards: what was said of some samples, those with most mistakes first."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ndformer.framework.answer import Answer, Source


def show(
    folder: Path, answers: Sequence[Answer], classes: Sequence[str], source: Source, count: int, least: float = 0.0
) -> None:
    """At most `count`: 000_wrong_bowl_as_cup_NAME.png, 001_2-of-3-found-1-wrong_NAME.png, 002_54-right_NAME.png. Of
    objects, those with a score of `least` or more are drawn."""
    folder.mkdir(parents=True, exist_ok=True)
    for place, i in enumerate(_by_mistakes(answers, least)[:count]):
        answers[i].save(folder, place, i, source, classes, least)


def cards(
    answers: Sequence[Answer], classes: Sequence[str], source: Source, count: int, least: float = 0.3
) -> dict[str, Any]:
    """PIL images by what they say: of half of them those with most mistakes, then the best ones."""
    order = _by_mistakes(answers, least)
    chosen = order if len(order) <= count else [*order[: count - count // 2], *order[len(order) - count // 2 :]]
    drawn = {}
    for i in chosen:
        says = f"{answers[i].path}, {i}: {answers[i].verdict(classes, least)}"
        drawn[says] = answers[i].card(answers[i].below(source, i), classes, least)
    return drawn


def _by_mistakes(answers: Sequence[Answer], least: float) -> list[int]:
    mistakes = [answer.mistakes(least) for answer in answers]
    return sorted(range(len(answers)), key=lambda i: -mistakes[i])
