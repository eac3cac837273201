"""The factorized encoder of ViViT (Arnab 2021, model 2): attention in space, then in time."""

import math
from collections.abc import Sequence
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ndformer.framework.attention_maps import AttentionMaps, RowCutter
from ndformer.framework.encoding import PositionEncoding
from ndformer.framework.encoding.base import ClassPosition
from ndformer.framework.encoding.composed import class_place
from ndformer.framework.errors import ConfigError
from ndformer.framework.packing import grids_by_sample, packed, unpacked
from ndformer.framework.registry import BACKBONES
from ndformer.framework.registry.ranges import Dims, Few, Positive, Rate, Width
from ndformer.framework.tokens import Rows, TokenSet, Where
from ndformer.framework.transformer import Transformer
from ndformer.moved import old_names

Encoding = dict[str, Any] | Sequence[dict[str, Any]] | None


@BACKBONES.register_module()
class FactorizedTransformer(RowCutter):
    """A transformer over the tokens of each time, then a transformer over one learned summary token per time (frame).

    The first coordinate is time, the others are space. For N = T S tokens this needs T S^2 + T^2 pairs, not (T S)^2.

    There are `depth` blocks in space and `time_depth` in time, each with its own instance of
    `encoding`: P - 1 dimensions in space, one in time. Tokens without a position attend in time only. The output has
    one row per sample, also of packed rows: those tokens, then one token per time. Times may have different numbers of
    tokens. `periods` of the encoding have an entry for each of the P dimensions; time is a line.
    """

    former_name = "FactorisedTransformer"

    def __init__(
        self,
        dim: Width,
        depth: Few,
        time_depth: Few,
        heads: Few,
        position_dims: Dims,
        encoding: dict[str, Any] | Sequence[dict[str, Any]] | None = None,
        mlp_ratio: Positive = 4.0,
        drop_path: Rate = 0.0,
        qk_norm: bool = False,
        initial_norm: bool = False,
        backend: str = "auto",
    ) -> None:
        super().__init__()
        if position_dims < 2:
            raise ValueError(
                f"FactorizedTransformer expects 2 or more position dimensions (time and space), got {position_dims}"
            )
        common: dict[str, Any] = dict(mlp_ratio=mlp_ratio, drop_path=drop_path, qk_norm=qk_norm, backend=backend)
        in_space, in_time = _split_periods(encoding, position_dims)
        self.dim, self.depth = dim, depth + time_depth
        self.summary = nn.Parameter(torch.zeros(dim))
        nn.init.trunc_normal_(self.summary, std=0.02)
        self.space = Transformer(dim, depth, heads, position_dims - 1, in_space, initial_norm=initial_norm, **common)
        self.time = Transformer(dim, time_depth, heads, 1, in_time, **common)
        self.on_grids = self.space.encoding.needs_grid

    def layer_index(self, name: str) -> int:
        part, _, suffix = name.partition(".")
        if part == "summary":
            return 0
        if part == "space":
            return min(self.space.layer_index(suffix), self.space.depth)  # its final norm is not the model's last layer
        return self.space.depth + self.time.layer_index(suffix)

    def forward(self, tokens: TokenSet) -> TokenSet:
        where = tokens.where
        cast(PositionEncoding, self.space.encoding).refuse_cameras(where, type(self).__name__)
        visible, real, owner = _owners(where, len(tokens.features))
        samples = len(owner) if where.segment is None else int(owner.max()) + 1
        positions = where.positions.expand(len(owner), -1, -1)
        rows, sample, moment = _groups(positions[..., 0], real, owner)
        x = rows.gather(tokens.features.flatten(0, 1))  # (G, K, dim)
        x = torch.cat([self.summary.to(x.dtype).expand(x.shape[0], 1, -1), x], dim=1)
        space = F.pad(rows.gather(positions[..., 1:].flatten(0, 1)), (0, 0, 1, 0))
        placed = torch.arange(x.shape[1], device=x.device)[None] > 0
        valid = F.pad(rows.valid, (1, 0), value=True)
        objects = None
        if where.objects is not None:
            objects = F.pad(rows.gather(where.objects.expand(len(owner), -1).flatten()), (1, 0))
        groups = Where(space, valid=valid, placed=placed, objects=objects)
        if self.on_grids and where.grid is not None:  # slices of the grid, unless there are other tokens
            groups = _as_grid(groups, where.grid[1:])
        grids = None  # of samples of different sizes, unless there are other tokens
        if self.on_grids and where.grids is not None and int(rows.valid.sum()) == sum(map(math.prod, where.grids)):
            grids = dict(enumerate(where.grids)) if where.segment is None else grids_by_sample(where)
        frames = None if grids is None else [grids[i][1:] for i in sample.tolist()]
        summaries = _on_grids(self.space, TokenSet(x, groups), frames).features[:, 0]  # (G, dim)
        unplaced = owner.masked_fill(~visible | real, -1)
        moments = _in_time(tokens.features, unplaced, summaries, sample, moment, samples)
        if self.on_grids and where.grid is not None:
            moments = TokenSet(moments.features, _as_grid(moments.where, where.grid[:1]))
        return _on_grids(self.time, moments, None if grids is None else [grids[i][:1] for i in sorted(grids)])

    def sample_positions(self, maps: AttentionMaps, *args: Any) -> Tensor:
        """Return positions (R, K, P): NaN for coordinates that a token lacks (time tokens have only a time)."""
        where: Where = args[0].where
        positions = maps.where.positions  # (R, K, P - 1) in space, (B, K, 1) in time
        if maps.layer in set(self.time.modules()):
            return F.pad(positions, (0, where.positions.shape[2] - 1), value=math.nan)
        _, real, owner = _owners(where, len(args[0].features))
        moments = _groups(where.positions.expand(len(owner), -1, -1)[..., 0], real, owner)[2]  # (R,)
        return torch.cat([moments[:, None, None].expand(-1, positions.shape[1], 1), positions], dim=2)


def class_token_place(backbone: nn.Module, encoding: Encoding, position: ClassPosition) -> ClassPosition:
    """Return the position of class tokens: 'auto' is the best one for the encoding, and none for this backbone."""
    if not isinstance(backbone, FactorizedTransformer):
        return class_place(encoding, position)
    if position not in ("auto", "nowhere"):
        raise ConfigError(
            f"class_at: expected 'auto' or 'nowhere' with FactorizedTransformer, got '{position}': the class token "
            "would be one of the frame at its time, and no head would read it"
        )
    return "nowhere"


def _split_periods(encoding: Encoding, position_dims: int) -> tuple[Encoding, Encoding]:
    """Return the configs of the encodings in space and in time, with the periods of their axes."""
    if not encoding:
        return None, None
    if not isinstance(encoding, dict):
        in_space, in_time = zip(*(_split_periods(part, position_dims) for part in encoding))
        return in_space, in_time
    in_time = {name: value for name, value in encoding.items() if name != "periods"}
    periods = encoding.get("periods")
    if periods is None or not any(periods):
        return in_time, in_time
    if len(periods) != position_dims or periods[0] is not None:
        raise ValueError(
            f"periods must have {position_dims} entries for FactorizedTransformer, the first None, got "
            f"{list(periods)}: the first axis is time, and tokens of equal times are one frame. Use Transformer "
            "for a circular time"
        )
    return dict(encoding, periods=list(periods[1:])), in_time


def _owners(where: Where, batch: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return which tokens (B, N) are valid, which of these have a position, and the sample of each token."""
    full = torch.ones(batch, where.positions.shape[1], dtype=torch.bool, device=where.positions.device)
    visible = full if where.valid is None else full & where.valid
    real = visible if where.placed is None else visible & where.placed
    owner = torch.arange(batch, device=full.device)[:, None] if where.segment is None else where.segment.long()
    return visible, real, owner.expand_as(full)


def _groups(time: Tensor, real: Tensor, owner: Tensor) -> tuple[Rows, Tensor, Tensor]:
    """Return one row of tokens per sample and time, from times and samples (B, N) of tokens.

    Also return the samples and times (G,) of the rows.
    """
    index = real.flatten().nonzero().squeeze(1)  # (real tokens,)
    key = torch.stack([owner.flatten()[index].to(time.dtype), time.flatten()[index]], dim=1)
    groups, group, count = key.unique(dim=0, return_inverse=True, return_counts=True)
    order = index[group.argsort(stable=True)]
    start = F.pad(count.cumsum(0), (1, 0))[:-1]
    slot = torch.arange(int(count.max()) if len(count) else 0, device=time.device)
    valid = slot < count[:, None]  # (G, K)
    rows = Rows(order[(start[:, None] + slot).masked_fill(~valid, 0)], valid)
    return rows, groups[:, 0].long(), groups[:, 1]


def _on_grids(network: Transformer, rows: TokenSet, grids: list[tuple[int, ...]] | None) -> TokenSet:
    """Return the tokens after `network`, which sees each row that has tokens on its grid if `grids` are given."""
    if grids is None:
        return network(rows)
    number = torch.arange(len(rows.features), device=rows.features.device)
    return unpacked(network(packed(rows, grids, number)), len(number))


def _as_grid(where: Where, grid: tuple[int, ...]) -> Where:
    """Return `where` with `grid` if no row has padding, else unchanged."""
    if where.valid is None or not bool(where.valid.all()) or where.positions.shape[1] < math.prod(grid):
        return where
    return Where(where.positions, placed=where.placed, grid=grid, objects=where.objects)


def _in_time(x: Tensor, owner: Tensor, summaries: Tensor, sample: Tensor, moment: Tensor, samples: int) -> TokenSet:
    """Return one row per sample: its tokens without a position, then a summary token for each time, then padding.

    `owner` (B, N) is the sample of each token without a position, and -1 for others.
    """
    index = (owner >= 0).flatten().nonzero().squeeze(1)
    owner = owner.flatten()[index]
    index = index[owner.argsort(stable=True)]
    before, count = torch.bincount(owner, minlength=samples), torch.bincount(sample, minlength=samples)
    width = max(1, int((before + count).max()))
    slot = torch.arange(width, device=x.device)
    first = F.pad(count.cumsum(0), (1, 0))[:-1]
    place = before[sample] + torch.arange(len(sample), device=x.device) - first[sample]  # (G,)
    features = x.new_zeros(samples, width, x.shape[2])
    prefix = slot < before[:, None]
    features[prefix] = x.flatten(0, 1)[index]
    features[sample, place] = summaries.to(x.dtype)
    positions = moment.new_zeros(samples, width, 1)
    positions[sample, place, 0] = moment
    return TokenSet(features, Where(positions, valid=slot < (before + count)[:, None], placed=~prefix))


__getattr__ = old_names(__name__, {"FactorisedTransformer": "FactorizedTransformer"})
