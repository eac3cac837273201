"""Checks of the first batch: tokens per sample, and the radius of the encoding against the spacing of tokens."""

import contextlib
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, cast

from torch import nn

from ndformer.framework.adapter import Adapter
from ndformer.framework.encoding import PositionEncoding
from ndformer.framework.encoding.base import short
from ndformer.framework.encoding.spacing import Spacing
from ndformer.framework.engine.training.runner import Runner
from ndformer.framework.model import TokenModel
from ndformer.framework.tokens import TokenSet, Where

MIN_TOKENS = 16  # per sample; training and show_tokens warn below it


@contextlib.contextmanager
def record_positions(model: nn.Module, record: Callable[[PositionEncoding, Where], None]) -> Iterator[None]:
    """Call `record` with the positions that each outermost encoding of the model receives within the context."""
    modules = [module for module in model.modules() if isinstance(module, PositionEncoding)]
    parts = {part for module in modules for part in module.modules() if part is not module}
    encodings = [encoding for encoding in modules if encoding not in parts]

    def prepare(encoding: PositionEncoding, where: Where) -> Any:
        record(encoding, where)
        return type(encoding).prepare(encoding, where)

    for encoding in encodings:
        encoding.prepare = partial(prepare, encoding)  # pyright: ignore[reportAttributeAccessIssue]
    try:
        yield
    finally:
        for encoding in encodings:
            del encoding.prepare


@contextlib.contextmanager
def first_warnings(trainer: Runner) -> Iterator[None]:
    """Print warnings about the tokens of a run's first batch."""
    if trainer.iter > 0 or trainer.cfg.train_cfg.get("compile"):  # a graph would be traced twice
        yield
        return
    with collect_warnings(trainer.model) as warnings:
        yield
    for warning in warnings:
        trainer.console.print(warning)


@contextlib.contextmanager
def collect_warnings(model: nn.Module) -> Iterator[list[str]]:
    """Collect warnings about samples with few tokens, and about encodings whose radius is below the token spacing."""
    warnings: list[str] = []
    positions: defaultdict[PositionEncoding, list[Where]] = defaultdict(list)
    with record_positions(model, lambda encoding, where: positions[encoding].append(where)), _counting(model) as counts:
        yield warnings
    if not (isinstance(model, TokenModel) and model.joint_modalities):  # a joined modality may have few tokens
        warnings += filter(None, (few_tokens(name, adapter, counted) for name, (adapter, counted) in counts.items()))
    warnings += dict.fromkeys(filter(None, (_small_radius(encoding, wheres) for encoding, wheres in positions.items())))


def few_tokens(name: str, adapter: Adapter, counts: Sequence[int]) -> str | None:
    """Return a warning if the samples of a modality, with these token counts, are below MIN_TOKENS; else None."""
    typical = statistics.median(counts) if counts else MIN_TOKENS
    if typical >= MIN_TOKENS or not adapter.more_tokens:
        return None
    source = "a sample" if len(counts) == 1 else f"the median of {len(counts)} samples"
    return (
        f"{name}: a sample needs about {MIN_TOKENS} tokens or more, got {typical:g} ({source}). With so few, a model "
        f"may stay at chance. {adapter.more_tokens}"
    )


@contextlib.contextmanager
def _counting(model: nn.Module) -> Iterator[dict[str, tuple[Adapter, list[int]]]]:
    """Count the tokens of each sample by modality, without padding, class token and registers."""
    modalities = model.modalities if isinstance(model, TokenModel) else {}
    adapters = {name: adapter for name, adapter in modalities.items() if isinstance(adapter, Adapter)}
    counts: dict[str, tuple[Adapter, list[int]]] = {name: (adapter, []) for name, adapter in adapters.items()}

    def count(total: list[int], adapter: nn.Module, _: Any, tokens: Any) -> None:
        if isinstance(tokens, TokenSet):
            total += token_counts(cast(Adapter, adapter), tokens)

    hooks = [adapter.register_forward_hook(partial(count, counts[name][1])) for name, adapter in adapters.items()]
    try:
        yield counts
    finally:
        for hook in hooks:
            hook.remove()


def token_counts(adapter: Adapter, tokens: TokenSet) -> list[int]:
    """Return the number of tokens of each sample, without padding, class token and registers."""
    (rows, count, _), valid, segment = tokens.features.shape, tokens.where.valid, tokens.where.segment
    if segment is not None:
        counts = segment[segment >= 0].bincount().tolist()
    else:
        counts = [count] * rows if valid is None else valid.sum(1).expand(rows).tolist()
    return [each - len(adapter.prefix_names) for each in counts]


def _small_radius(encoding: PositionEncoding, wheres: Sequence[Where]) -> str | None:
    radius = encoding.initial_radius
    spacing = None if radius is None else Spacing.measure(wheres, encoding.factors)
    if radius is None or spacing is None or spacing.nearest <= radius:
        return None
    return (
        f"tokens are about {short(spacing.nearest):g} apart, and {type(encoding).__name__} first attends within a "
        f"radius of {short(radius):g}: a model may never learn to attend to other tokens. position_scale='auto' makes "
        "the spacing about 1"
    )
