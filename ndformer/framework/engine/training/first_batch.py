"""Checks of the first batch: how many tokens its samples have, and whether the untrained encoding can see from one to
the next."""

import contextlib
import statistics
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, cast

from torch import nn

from ndformer.framework.adapter import Adapter
from ndformer.framework.encoding import PositionEncoding
from ndformer.framework.encoding.base import short
from ndformer.framework.encoding.spacing import Spacing
from ndformer.framework.model import TokenModel
from ndformer.framework.tokens import TokenSet, Where

FEW = 16  # tokens of a sample, below which training and show_tokens warn


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
    """Collect warnings about samples with few tokens, and about encodings whose radius is below the token spacing."""
    said: list[str] = []
    with seen_by(model) as seen, _counting(model) as counts:
        yield said
    if not (isinstance(model, TokenModel) and model.joint_modalities):  # of joined modalities, one may have few tokens
        said += filter(None, (few_tokens(name, adapter, found) for name, (adapter, found) in counts.items()))
    said += dict.fromkeys(filter(None, (_too_far(encoding, wheres) for encoding, wheres in seen.items())))


def few_tokens(name: str, adapter: Adapter, counts: Sequence[int]) -> str | None:
    """Return a warning if samples of a modality, with these numbers of tokens, have fewer than FEW; else None."""
    typical = statistics.median(counts) if counts else FEW
    if typical >= FEW:
        return None
    of = "a sample" if len(counts) == 1 else f"the median of {len(counts)} samples"
    return (
        f"{name}: a sample needs about {FEW} tokens or more, got {typical:g} ({of}). With so few, a model may stay at "
        f"chance. {adapter.more_tokens}"
    )


@contextlib.contextmanager
def _counting(model: nn.Module) -> Iterator[dict[str, tuple[Adapter, list[int]]]]:
    """Count the tokens of each sample by modality, without padding, class token and registers."""
    modalities = model.modalities if isinstance(model, TokenModel) else {}
    adapters = {name: one for name, one in modalities.items() if isinstance(one, Adapter)}
    counts: dict[str, tuple[Adapter, list[int]]] = {name: (one, []) for name, one in adapters.items()}

    def note(into: list[int], adapter: nn.Module, _: Any, made: Any) -> None:
        if isinstance(made, TokenSet):
            into += tokens_of(cast(Adapter, adapter), made)

    hooks = [one.register_forward_hook(partial(note, counts[name][1])) for name, one in adapters.items()]
    try:
        yield counts
    finally:
        for hook in hooks:
            hook.remove()


def tokens_of(adapter: Adapter, made: TokenSet) -> list[int]:
    """Return the number of tokens of each sample, without padding, class token and registers."""
    (rows, count, _), valid = made.features.shape, made.where.valid
    found = [count] * rows if valid is None else valid.sum(1).expand(rows).tolist()
    return [one - len(adapter.prefix_names) for one in found]


def _too_far(encoding: PositionEncoding, wheres: Sequence[Where]) -> str | None:
    reach = encoding.initial_radius
    spacing = None if reach is None else Spacing.measure(wheres, encoding.factors)
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
