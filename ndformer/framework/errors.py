"""Exceptions whose messages say what was expected, what was found and what to do."""

import difflib
from collections.abc import Iterable, Sequence
from typing import Any


class DataError(RuntimeError):
    """Missing or wrong data. Programs append `option`, a command-line option that helps, to the message."""

    def __init__(self, sentence: str, option: str = "") -> None:
        super().__init__(sentence)
        self.option = option


class MissingError(DataError):
    """A data set was not found."""

    def __init__(self, sentence: str) -> None:
        super().__init__(sentence, "--sample works without it")


def no_class(who: object, label: object, classes: int, remedy: str) -> DataError:
    """Return the error for a label outside the range of classes; `who` names the file or sample."""
    return DataError(f"{who} has the label {label}, but there are {classes} classes, 0 to {classes - 1}: {remedy}")


def check_labels(labels: Any, classes: int, who: object, remedy: str) -> None:
    """Raise DataError if a label in the array is outside the range of classes."""
    wrong = labels[(labels < 0) | (labels >= classes)]
    if len(wrong):
        raise no_class(who, wrong[0], classes, remedy)


class UnknownNameError(KeyError):
    """An unknown name or option. Unlike KeyError, its message is printed without quotes."""

    def __str__(self) -> str:
        return str(self.args[0])


def alternatives(words: Iterable[str]) -> str:
    """Return "a, b or c"."""
    *first, last = words
    return f"{', '.join(first)} or {last}" if first else last


def nearest(name: str, choices: Iterable[str]) -> str:
    """Return ", did you mean 'X'?" for the choices most similar to an unknown name, or "."."""
    folded = {k.lower(): k for k in choices}
    close = [name.lower()] if name.lower() in folded else []
    close = close or [k for k in folded if len(name) > 2 and name.lower() in k]  # RoPE: AxialRoPE, RoPEMixed, not NoPE
    close = close or difflib.get_close_matches(name.lower(), folded, n=1, cutoff=0.5)
    close.sort(key=len)
    meant = " or ".join(f"'{folded[k]}'" for k in close[:3])
    return f", did you mean {meant}?" if meant else "."


def shorten_list(names: Sequence[str], limit: int, separator: str = ", ") -> str:
    """Return the first names, and how many more there are: "a, b and 3 more"."""
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return separator.join(names[:limit]) + more


class ConfigError(ValueError):
    """An invalid config; the message has one line per problem."""


class NothingLeftError(ValueError):
    """A batch in which every modality is missing or masked."""


class BadNumbers(DataError):
    """A loss, gradient or weight that is not finite."""
