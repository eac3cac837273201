"""A folder of cards: what was said of some samples, those with most mistakes first."""

from collections.abc import Sequence
from pathlib import Path

from ndformer.framework.answer import Answer, Source


def show(
    folder: Path, answers: Sequence[Answer], classes: Sequence[str], source: Source, count: int, least: float = 0.0
) -> None:
    """At most `count`: 000_wrong_bowl_as_cup_NAME.png, 001_2-of-3-found-1-wrong_NAME.png, 002_54-right_NAME.png. Of
    objects, those with a score of `least` or more are drawn."""
    folder.mkdir(parents=True, exist_ok=True)
    mistakes = [answer.mistakes(least) for answer in answers]
    order = sorted(range(len(answers)), key=lambda i: -mistakes[i])
    for place, i in enumerate(order[:count]):
        answers[i].save(folder, place, i, source, classes, least)
