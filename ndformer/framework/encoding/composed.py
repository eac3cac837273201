"""Build position encodings from configs, also several at once.

encoding = build_encoding(dict(type='PaPE', m=50), dim=384, heads=6, position_dims=2, depth=12)
encoding = build_encoding([dict(type='Sincos'), dict(type='PaPE')], dim=384, heads=6, position_dims=2, depth=12)
"""

from collections.abc import Sequence
from typing import Any, cast

from torch import Tensor, nn

from ndformer.framework.bias.base import Bias, SumBias
from ndformer.framework.encoding.base import ClassPosition, PositionEncoding, class_position
from ndformer.framework.encoding.coverage import Coverage
from ndformer.framework.encoding.layer import LayerEncoding
from ndformer.framework.registry import ENCODINGS
from ndformer.framework.tokens import Where


class Composed(PositionEncoding):
    """Several encodings applied together: embeddings and rotations in sequence, biases summed.

    Values are transformed in the same sequence and outputs in reverse, so that encodings nest: the last one that was
    applied to the values is the first one that is undone.
    """

    def __init__(self, parts: Sequence[PositionEncoding]) -> None:
        first = parts[0]
        super().__init__(first.dim, first.heads, first.position_dims, first.depth)
        with_cameras = [type(part).__name__ for part in parts if part.uses_cameras]
        if len(with_cameras) > 1:
            raise ValueError(
                f"at most one encoding can use cameras, got {' and '.join(with_cameras)}: their matrices do not "
                "commute, so that outputs would depend on the shared space. Leave one out"
            )
        late = next((type(part).__name__ for part in parts[1:] if part.normalizes), None)
        if late is not None:
            raise ValueError(
                f"{late} normalizes q and k, and with them what {type(first).__name__} adds: write it first in the list"
            )
        own_layers = [type(part).layer is not PositionEncoding.layer for part in parts]
        wide = next(
            (type(part).__name__ for i, part in enumerate(parts) if part.widens and any(own_layers[i + 1 :])), None
        )
        if wide is not None:
            raise ValueError(
                f"{wide} doubles the channels of q and k, which {type(parts[-1]).__name__} after it has not: write "
                f"{wide} last in the list"
            )
        axes = zip(*(part.periods for part in parts))
        self.periods = tuple(next(filter(None, periods), None) for periods in axes)
        self.parts = cast(list[PositionEncoding], nn.ModuleList(parts))
        for flag in (
            "needs_grid",
            "content_dependent",
            "embeds_unplaced",
            "changes_unplaced",
            "bounded",
            "scales_waves",
            "uses_cameras",
            "normalizes",
            "widens",
        ):
            setattr(self, flag, any(getattr(part, flag) for part in parts))
        for flag in ("float_positions", "translation_invariant", "rotation_invariant", "fullgraph", "circular_axes"):
            setattr(self, flag, all(getattr(part, flag) for part in parts))
        rotating = [part for part in parts if part.planes is not None]
        self.planes = rotating[0].planes if rotating else None
        if len({part.planes for part in rotating}) > 1:  # R_1(r)' R_2(dr) R_1(r') is no function of dr
            self.planes, self.translation_invariant = id(self), False
            for part in rotating:
                part.translation_invariant = False  # their positions may not be moved to the middle of a sample
        for part in [part for part in parts if part.scales_waves][1:]:
            part.has_temperature = False
        self.instead = next((p.instead for p in parts if p.needs_grid), self.instead)

    @property
    def initial_radius(self) -> float | None:
        """The largest radius of the parts: one that distinguishes positions is enough."""
        radii = [part.initial_radius for part in self.parts]
        return None if None in radii else max(cast(list[float], radii))

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name in ("scale_positions", "scaling", "periods") and "parts" in self._modules:
            for part in self.parts:
                setattr(part, name, value)

    def coverage(self, wheres: Sequence[Where]) -> list[Coverage]:
        return [item.prefixed(type(part).__name__) for part in self.parts for item in part.coverage(wheres)]

    def prepare(self, where: Where) -> Any:
        return tuple(part.prepare(where) for part in self.parts)

    def embed(self, x: Tensor, state: Any) -> Tensor:
        for part, s in zip(self.parts, state):
            x = part.embed(x, s)
        return x

    def block_update(self, x: Tensor, state: Any, blocks_done: int) -> Tensor:
        for part, s in zip(self.parts, state):
            x = part.block_update(x, s, blocks_done)
        return x

    @property
    def has_block_update(self) -> bool:
        return any(part.has_block_update for part in self.parts)

    def layer(self, index: int, depth: int) -> LayerEncoding:
        return ComposedLayer([part.layer(index, depth) for part in self.parts])

    def embedded(self) -> PositionEncoding:
        return Composed([part.embedded() for part in self.parts])


class ComposedLayer(LayerEncoding):
    def __init__(self, parts: Sequence[LayerEncoding]) -> None:
        super().__init__()
        self.parts = cast(list[LayerEncoding], nn.ModuleList(parts))
        self.batch_statistics = any(part.batch_statistics for part in parts)

    def input(self, x: Tensor, state: Any) -> Tensor:
        for part, s in zip(self.parts, state):
            x = part.input(x, s)
        return x

    def qk_input(self, x: Tensor, state: Any) -> Tensor:
        for part, s in zip(self.parts, state):
            x = part.qk_input(x, s)
        return x

    def qk(self, q: Tensor, k: Tensor, x: Tensor, state: Any) -> tuple[Tensor, Tensor]:
        for part, s in zip(self.parts, state):
            q, k = part.qk(q, k, x, s)
        return q, k

    def bias(self, q: Tensor, k: Tensor, x: Tensor, state: Any) -> Bias | None:
        biases = [part.bias_on_axes(q, k, x, s) for part, s in zip(self.parts, state)]
        biases = [b for b in biases if b is not None]
        return SumBias(biases) if len(biases) > 1 else biases[0] if biases else None

    def values(self, v: Tensor, x: Tensor, state: Any) -> Tensor:
        for part, s in zip(self.parts, state):
            v = part.values(v, x, s)
        return v

    def output(self, y: Tensor, x: Tensor, state: Any) -> Tensor:
        for part, s in reversed(list(zip(self.parts, state))):
            y = part.output(y, x, s)
        return y

    @property
    def changes_qk_input(self) -> bool:
        return any(part.changes_qk_input for part in self.parts)

    @property
    def transforms_values(self) -> bool:
        return any(part.transforms_values for part in self.parts)


def class_place(
    cfg: dict[str, Any] | Sequence[dict[str, Any]] | None, class_at: ClassPosition = "auto"
) -> ClassPosition:
    """Return the class-token position `class_at`, where 'auto' is the best one for an encoding.

    It was measured in docs/results/class-token-and-radius.md. On a circle the mean and the origin depend on the place
    of the seam: 'auto' is 'nowhere' then, and other positions are refused.
    """
    class_at = class_position(class_at)
    parts = [] if not cfg else [cfg] if isinstance(cfg, dict) else cfg
    periods = next((part["periods"] for part in parts if any(part.get("periods") or ())), None)
    if class_at in ("origin", "center") and periods is not None:
        raise ValueError(
            f"class_at must be 'nowhere' or 'auto' with periods={list(periods)}, got '{class_at}': the mean and the "
            "origin of a circle depend on where its seam is. Set class_at='auto'"
        )
    if class_at != "auto":
        return class_at
    centered = any(class_position(ENCODINGS.get(part["type"]).class_at) == "center" for part in parts)
    return "center" if centered and periods is None else "nowhere"


def with_periods(
    cfg: dict[str, Any] | Sequence[dict[str, Any]] | None, periods: Sequence[float | None]
) -> dict[str, Any] | list[dict[str, Any]] | None:
    """Return the config of an encoding on circular axes; parts that have `periods` keep theirs."""
    if not cfg:
        return None
    if isinstance(cfg, dict):
        return dict(periods=list(periods)) | cfg
    return [dict(periods=list(periods)) | part for part in cfg]


def build_encoding(
    cfg: dict[str, Any] | Sequence[dict[str, Any]] | None, *, dim: int, heads: int, position_dims: int, depth: int
) -> PositionEncoding:
    """Build an encoding from dict(type='PaPE', m=50), or from a list of configs; None or an empty config is NoPE."""
    shape: dict[str, Any] = dict(dim=dim, heads=heads, position_dims=position_dims, depth=depth)
    if not cfg:
        return PositionEncoding(**shape)
    if isinstance(cfg, dict | str):  # text, which is for command lines, is refused with a message
        return ENCODINGS.create(cfg, **shape)
    return Composed([ENCODINGS.create(part, **shape) for part in cfg])
