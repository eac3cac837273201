"""Where the tokens of a first batch are, and whether the untrained encoding can see from one to the next."""

import contextlib
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from torch import nn

from ndformer.framework.encoding import PositionEncoding, short
from ndformer.framework.spacing import Spacing
from ndformer.framework.tokens import Where


@contextlib.contextmanager
def seen_by(model: nn.Module) -> Iterator[dict[PositionEncoding, list[Where]]]:
    """What each of the model's encodings is told of places meanwhile."""
    seen: dict[PositionEncoding, list[Where]] = {}
    with _noting(model, lambda encoding, where: seen.setdefault(encoding, []).append(where)):
        yield seen


@contextlib.contextmanager
def places(model: nn.Module) -> Iterator[list[Where]]:
    """What all of them are."""
    seen: list[Where] = []
    with _noting(model, lambda _, where: seen.append(where)):
        yield seen


@contextlib.contextmanager
def looked_at(model: nn.Module) -> Iterator[list[str]]:
    """Sentences on encodings whose tokens are too far apart for them, of what the model is shown meanwhile."""
    said: list[str] = []
    with seen_by(model) as seen:
        yield said
    said += dict.fromkeys(filter(None, (_too_far(encoding, wheres) for encoding, wheres in seen.items())))


def _too_far(encoding: PositionEncoding, wheres: Sequence[Where]) -> str | None:
    reach = encoding.first_reach
    spacing = None if reach is None else Spacing.of(wheres, encoding.factors)
    if reach is None or spacing is None or spacing.nearest <= reach:
        return None
    return (
        f"tokens stand about {short(spacing.nearest):g} apart, and {type(encoding).__name__} begins by telling places "
        f"up to {short(reach):g} apart: it may never learn to look at others. position_scale='auto' makes it about 1"
    )


@contextlib.contextmanager
def _noting(model: nn.Module, note: Any) -> Iterator[None]:
    every = [module for module in model.modules() if isinstance(module, PositionEncoding)]
    parts = {part for whole in every for part in whole.modules() if part is not whole}
    encodings = [encoding for encoding in every if encoding not in parts]

    def prepare(encoding: PositionEncoding, where: Where) -> Any:
        note(encoding, where)
        return type(encoding).prepare(encoding, where)

    for encoding in encodings:
        encoding.prepare = partial(prepare, encoding)  # pyright: ignore[reportAttributeAccessIssue]
    try:
        yield
    finally:
        for encoding in encodings:
            del encoding.prepare
