"""Transformer backbone: pre-norm blocks over token sets of any modality."""

from collections.abc import Sequence
from typing import Annotated, Any, cast

import torch
from torch import Tensor, nn

from ndformer.framework.attention import Attention
from ndformer.framework.attention_maps import AttentionMaps, RowCutter
from ndformer.framework.encoding import LayerEncoding, PositionEncoding
from ndformer.framework.encoding.composed import build_encoding
from ndformer.framework.encoding.grouped import SameDraw, each_group, prepare
from ndformer.framework.grid_windows import grid_windows
from ndformer.framework.registry import BACKBONES
from ndformer.framework.registry.ranges import Dims, Few, FewOrNone, Finite, Names, Positive, Rate, Width
from ndformer.framework.system.processes import rand
from ndformer.framework.tokens import TokenSet, Where


class MLP(nn.Sequential):
    def __init__(self, dim: int, ratio: float = 4.0) -> None:
        hidden = int(dim * ratio)
        super().__init__(nn.Linear(dim, hidden), nn.GELU(), nn.Linear(hidden, dim))


class LayerScale(nn.Module):
    """A learned scale per channel of a residual branch, small at initialization (Touvron 2021)."""

    def __init__(self, dim: int, start: float) -> None:
        super().__init__()
        self.gamma = nn.Parameter(torch.full((dim,), start))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.gamma


class DropPath(nn.Module):
    """Stochastic depth: drop a residual branch per sample with probability `rate` and scale up the other samples."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        if not 0.0 <= rate < 1.0:
            raise ValueError(f"drop_path must be from 0 to below 1, got {rate}")
        self.rate = rate

    def forward(self, x: Tensor, where: Where) -> Tensor:
        if not self.training or self.rate == 0.0:
            return x
        keep_prob = 1.0 - self.rate
        if where.segment is None:
            mask = rand(x.shape[0], 1, device=x.device) < keep_prob
        else:  # packed rows contain several samples
            runs = where.runs().expand(x.shape[0], -1)
            mask = (rand(*x.shape[:2], device=x.device) < keep_prob).gather(1, runs)
        return x * (mask.to(x.dtype) / keep_prob)[..., None]


class Block(nn.Module):
    """A pre-norm block: x + attention(norm(x)), then x + mlp(norm(x))."""

    def __init__(
        self,
        dim: int,
        heads: int,
        encoding: LayerEncoding | None = None,
        mlp_ratio: float = 4.0,
        drop_path: float = 0.0,
        layer_scale: float | None = None,
        qk_norm: bool = False,
        backend: str = "auto",
        norm_eps: float = 1e-5,
    ) -> None:
        super().__init__()

        def scale() -> nn.Module:
            return nn.Identity() if layer_scale is None else LayerScale(dim, layer_scale)

        self.norm1 = nn.LayerNorm(dim, norm_eps)
        self.attention = Attention(dim, heads, encoding, qk_norm=qk_norm, backend=backend)
        self.scale1 = scale()
        self.norm2 = nn.LayerNorm(dim, norm_eps)
        self.mlp = MLP(dim, mlp_ratio)
        self.scale2 = scale()
        self.drop_path = DropPath(drop_path)

    def forward(self, x: Tensor, where: Where, state: Any, encoding: LayerEncoding | None = None) -> Tensor:
        x = x + self.drop_path(self.scale1(self.attend(self.norm1(x), where, state, encoding)), where)
        return x + self.drop_path(self.scale2(self.mlp(self.norm2(x))), where)

    def attend(self, x: Tensor, where: Where, state: Any, encoding: LayerEncoding | None) -> Tensor:
        return self.attention(x, where, state, encoding)


class WindowBlock(Block, RowCutter):
    """A block whose tokens attend within windows; `state` are these windows, and the encoding's state for them."""

    def attend(self, x: Tensor, where: Where, state: Any, encoding: LayerEncoding | None) -> Tensor:
        windows, within = state
        return windows.join(self.attention(windows.cut(x), windows.where, within, encoding), x.shape)

    def sample_positions(self, maps: AttentionMaps, *args: Any) -> Tensor:
        return maps.where.positions


@BACKBONES.register_module()
class Transformer(nn.Module):
    """A transformer of `depth` blocks with one position encoding, from TokenSet to TokenSet at the same positions.

    The PaPE paper's ViT uses `initial_norm`, `final_norm` and one `drop_path` rate in all layers; a sequence sets one
    rate per layer. `norm_eps` is added to the variance in norms; many pretrained weights need 1e-6.

    With `window` tokens attend within windows of so many tokens per axis, but in the `global_blocks`, as in ViTDet (Li
    2022: 14 and [2, 5, 8, 11]). This needs tokens of grids alone; grids may have any size.

    With `position_dims` by name, dict(image=2, points=3), the same blocks serve several position spaces, each with its
    own encoding weights; pass `space` to forward().
    """

    def __init__(
        self,
        dim: Width,
        depth: Few,
        heads: Few,
        position_dims: Dims | Annotated[dict[str, Dims], Names()],
        encoding: dict[str, Any] | Sequence[dict[str, Any]] | None = None,
        mlp_ratio: Positive = 4.0,
        drop_path: Rate | Sequence[Rate] = 0.0,
        layer_scale: Finite | None = None,
        qk_norm: bool = False,
        initial_norm: bool = False,
        final_norm: bool = True,
        backend: str = "auto",
        norm_eps: Positive = 1e-5,
        window: Few | None = None,
        global_blocks: Sequence[FewOrNone] = (),
    ) -> None:
        super().__init__()
        if not set(global_blocks) <= set(range(depth)) or (global_blocks and window is None):
            raise ValueError(
                f"global_blocks must be numbers of blocks from 0 to {depth - 1}, with a window for the others, got "
                f"{list(global_blocks)} and window={window}"
            )
        rates = [drop_path] * depth if isinstance(drop_path, (int, float)) else list(drop_path)
        if len(rates) != depth:
            raise ValueError(f"drop_path must be one rate or one per layer ({depth}), got {len(rates)}")
        self.dim, self.depth = dim, depth
        self.window = window

        def new_encoding(dims: int) -> PositionEncoding:
            return build_encoding(encoding, dim=dim, heads=heads, position_dims=dims, depth=depth)

        def blocks(layers: Sequence[LayerEncoding | None]) -> nn.ModuleList:
            kinds = [Block if window is None or i in global_blocks else WindowBlock for i in range(depth)]
            return nn.ModuleList(
                kind(dim, heads, layer, mlp_ratio, rate, layer_scale, qk_norm, backend, norm_eps)
                for kind, layer, rate in zip(kinds, layers, rates)
            )

        if isinstance(position_dims, int):
            self.encoding = new_encoding(position_dims)
            self.blocks = blocks([self.encoding.layer(i, depth) for i in range(depth)])
        else:
            encodings = {space: new_encoding(dims) for space, dims in position_dims.items()}
            self.encoding = nn.ModuleDict(encodings)
            self.blocks = blocks([None] * depth)
            layers = {space: [part.layer(i, depth) for i in range(depth)] for space, part in encodings.items()}
            self.layers = nn.ModuleDict({space: nn.ModuleList(parts) for space, parts in layers.items()})
        self.initial_norm = nn.LayerNorm(dim, norm_eps) if initial_norm else nn.Identity()
        self.final_norm = nn.LayerNorm(dim, norm_eps) if final_norm else nn.Identity()

    def layer_index(self, name: str) -> int:
        """Return the layer number of a parameter, for layer-wise learning-rate decay."""
        part, *rest = name.split(".")
        if part in ("blocks", "layers"):  # blocks.INDEX, layers.SPACE.INDEX
            return int(rest[part == "layers"]) + 1
        return 0 if part in ("encoding", "initial_norm") else self.depth + 1

    def forward(self, tokens: TokenSet, space: str | None = None) -> TokenSet:
        where, x = tokens.where, tokens.features
        if where.padding is not None:
            x = x.masked_fill(where.padding[..., None], 0)  # NaN in padding would make gradients of norms NaN
        encoding, layers = self._find_encoding(space)
        draw = SameDraw(encoding)
        state = prepare(encoding, where, draw)
        within: Any = None
        if self.window is not None:
            windows = grid_windows(where, self.window, x.shape[0])
            within = windows, prepare(encoding, windows.where, draw)
        x = self.initial_norm(each_group(encoding.embed, x, state))
        x = each_group(encoding.block_update, x, state, 0)
        for i, (block, layer) in enumerate(zip(self.blocks, layers)):
            state_of_block = within if isinstance(block, WindowBlock) else state
            x = block(x, where, state_of_block, layer)
            x = each_group(encoding.block_update, x, state, i + 1)
        return TokenSet(self.final_norm(x), where, tokens.modality)

    def _find_encoding(self, space: str | None) -> tuple[Any, Sequence[Any]]:
        """Return the encoding and the layer encodings of a position space; with one space, blocks own them."""
        if isinstance(self.encoding, PositionEncoding):
            return self.encoding, [block.attention.encoding for block in cast(Any, self.blocks)]
        if space is None or space not in self.layers:
            raise ValueError(f"space must be one of {', '.join(self.layers)}, got {space!r}")
        return self.encoding[space], cast(Any, self.layers[space])
