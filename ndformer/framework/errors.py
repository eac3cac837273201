"""Errors that are sentences for a user: what was expected, what came, what to do."""

import difflib
from collections.abc import Iterable
from typing import Any


class DataError(RuntimeError):
    """Data that is missing or wrong, told in one sentence: what, where, and what to do. Programs print behind it the
    `option` of theirs that helps too; others have no options."""

    def __init__(self, sentence: str, option: str = "") -> None:
        super().__init__(sentence)
        self.option = option


class MissingError(DataError):
    """A data set is not where it was looked for."""

    def __init__(self, sentence: str) -> None:
        super().__init__(sentence, "--sample works without it")


def no_class(who: object, label: object, classes: int, remedy: str) -> DataError:
    """A label for which there is no class: whose it is, and what to do."""
    return DataError(f"{who} has the label {label}, but there are {classes} classes, 0 to {classes - 1}: {remedy}")


def check_labels(labels: Any, classes: int, who: object, remedy: str) -> None:
    """There is a class for each label of an array."""
    wrong = labels[(labels < 0) | (labels >= classes)]
    if len(wrong):
        raise no_class(who, wrong[0], classes, remedy)


class UnknownNameError(KeyError):
    """A name or an option that nothing answers to. (A KeyError whose message prints as it is.)"""

    def __str__(self) -> str:
        return str(self.args[0])


def nearest(name: str, known: Iterable[str]) -> str:
    """The end of a sentence about an unknown name: ", did you mean 'X'?", or "." where nothing is near."""
    folded = {k.lower(): k for k in known}
    close = [name.lower()] if name.lower() in folded else []
    close = close or [k for k in folded if len(name) > 2 and name.lower() in k]  # RoPE: AxialRoPE, RoPEMixed, not NoPE
    close = close or difflib.get_close_matches(name.lower(), folded, n=1, cutoff=0.5)
    close.sort(key=len)
    meant = " or ".join(f"'{folded[k]}'" for k in close[:3])
    return f", did you mean {meant}?" if meant else "."


class ConfigError(ValueError):
    """A config that cannot be meant: one sentence per problem, each on its line."""


class NothingLeftError(ValueError):
    """All that the samples of a batch have is masked."""


class BadNumbers(DataError):
    """A loss, gradient or weight that is not finite."""
