"""A slow float64 account of each encoding, written from the papers' formulas: what the library is compared with.

It shares nothing with the library but the values of the weights. Every sample is computed by itself, so padding and
packing are right by construction, and every head by itself, over all pairs of its tokens.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ndformer.framework.attention import Attention, build_encoding
from ndformer.framework.tokens import Where

torch.set_num_threads(1)  # tensors this small are slower on several, many times so where tests run side by side


class Model(nn.Module):
    """One attention layer and its encoding."""

    def __init__(
        self, cfg: Any, dims: int, heads: int = 3, width: int = 16, depth: int = 4, index: int = 1, seed: int = 0
    ) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.cfg, self.dims, self.heads, self.width = cfg, dims, heads, width
        self.depth, self.index, self.dim = depth, index, heads * width
        self.encoding: Any = build_encoding(cfg, dim=self.dim, heads=heads, position_dims=dims, depth=depth)
        self.attention: Any = Attention(self.dim, heads, self.encoding.layer(index, depth), backend="dense")

    def forward(self, x: Tensor, where: Where, backend: str = "dense") -> Tensor:
        self.attention.backend = backend
        state = self.encoding.prepare(where)
        return self.attention(self.encoding.embed(x, state), where, state)

    def logits(self, x: Tensor, where: Where) -> Tensor:
        state = self.encoding.prepare(where)
        return self.attention.logits(self.encoding.embed(x, state), where, state)

    def bias(self, x: Tensor, where: Where) -> Tensor:
        """The logits of an encoding that adds to them, without those of the content."""
        with torch.no_grad():
            self.attention.qkv.weight.zero_()
            self.attention.qkv.bias.zero_()
            return self.logits(x, where)


def reference(model: Model, weights: dict[str, Tensor], x: Tensor, layout: dict[str, Any]) -> Tensor:
    """(B, N, dim): what `model` should give for `layout`, the arguments of a Where; its weights in float64, by name."""
    out = torch.zeros_like(x)
    positions = layout["positions"].double().expand(x.shape[0], -1, -1)
    placed = layout.get("placed", torch.ones(1, x.shape[1], dtype=torch.bool)).expand(x.shape[0], -1)
    for row, tokens in samples(layout, x.shape[0]):
        y = alone(model, weights, x[row, tokens], positions[row, tokens], placed[row, tokens])
        out = out.index_put((torch.tensor(row), torch.tensor(tokens)), y)
    return out


def samples(layout: dict[str, Any], rows: int) -> Iterator[tuple[int, list[int]]]:
    """The tokens that see each other: (row, their numbers in it)."""
    N = layout["positions"].shape[1]
    valid = layout.get("valid", torch.ones(1, N, dtype=torch.bool)).expand(rows, -1).tolist()
    segment = layout.get("segment", torch.zeros(1, N, dtype=torch.int64)).expand(rows, -1).tolist()
    for row in range(rows):
        for sample in sorted(set(segment[row]) - {-1}):
            tokens = [n for n in range(N) if segment[row][n] == sample and valid[row][n]]
            if tokens:
                yield row, tokens


def alone(model: Model, weights: dict[str, Tensor], x: Tensor, r: Tensor, placed: Tensor) -> Tensor:
    """One sample: x (n, dim), r (n, P), placed (n,) -> (n, dim)."""
    r = torch.where(placed[:, None], r, 0.0) * model.cfg.get("position_scale", 1.0)
    dr = r - r[:, None]  # (n, n, P): r_j - r_i at [i, j]
    both = placed & placed[:, None]
    if model.cfg["type"] == "Sincos":
        x = x + sincos(r, model.dim) * placed[:, None]
    qkv = x @ weights["qkv.weight"].T + weights["qkv.bias"]
    q, k, v = qkv.view(len(x), 3, model.heads, model.width).unbind(1)  # (n, H, h)
    heads = []
    for h in range(model.heads):
        logits = content(model, weights, h, q[:, h], k[:, h], dr) / math.sqrt(model.width)
        logits = logits + torch.where(both, bias(model, weights, h, x, dr), 0.0)
        heads.append(logits.softmax(1) @ v[:, h])
    return torch.cat(heads, dim=1) @ weights["proj.weight"].T + weights["proj.bias"]


def sincos(r: Tensor, dim: int) -> Tensor:
    P = r.shape[1]
    channels = []
    for p in range(P):
        width = dim // P + (dim % P if p == P - 1 else 0)
        for c in range(width):
            angle = r[:, p] / 10000 ** (2 * (c // 2) / width)
            channels.append(angle.sin() if c % 2 == 0 else angle.cos())
    return torch.stack(channels, dim=1)


def content(model: Model, weights: dict[str, Tensor], h: int, q: Tensor, k: Tensor, dr: Tensor) -> Tensor:
    """(n, n): q_i k_j; of a pair of channels read as complex numbers, Re(q_i conj(k_j) exp(-i w'(r_j - r_i)))."""
    if model.cfg["type"] not in ("AxialRoPE", "RoPEMixed"):
        return q @ k.T
    if model.cfg["type"] == "RoPEMixed":
        frequencies = list(weights["encoding.frequencies"][h])
    else:
        n = model.width // (2 * model.dims)
        frequencies = [100 ** (-i / n) * e for e in torch.eye(model.dims).double() for i in range(n)]
    total = torch.zeros(len(q), len(k), dtype=q.dtype)
    for f, w in enumerate(frequencies):
        (q0, q1), (k0, k1) = q[:, 2 * f : 2 * f + 2].T, k[:, 2 * f : 2 * f + 2].T
        real = torch.outer(q0, k0) + torch.outer(q1, k1)
        imaginary = torch.outer(q1, k0) - torch.outer(q0, k1)
        total = total + real * (dr @ w).cos() + imaginary * (dr @ w).sin()
    turned = 2 * len(frequencies)
    return total + q[:, turned:] @ k[:, turned:].T


def bias(model: Model, weights: dict[str, Tensor], h: int, x: Tensor, dr: Tensor) -> Tensor:
    """(n, n): what is added to the logits of head h; x (n, dim), dr (n, n, P)."""
    cfg, distance = model.cfg, (dr * dr).sum(-1).sqrt()
    if cfg["type"] == "ALiBi":
        return -published_slopes(model.heads)[h] * distance
    if cfg["type"] == "LookHere":  # where the heads look is tested by itself
        encoding = model.encoding
        layer_slope = 1.5 - model.index / (model.depth - 1)
        along = dr @ torch.tensor(encoding.directions[h], dtype=dr.dtype)
        inside = along >= (encoding.cosines[h] - 1e-5) * distance
        return torch.where(inside, -layer_slope * encoding.slopes[h] * distance, -math.inf)
    if cfg["type"] == "RelativeBias":
        tables = [weights[name][h] for name in sorted(weights) if name.startswith("encoding.tables")]
        return torch.stack([torch.stack([table_value(cfg, tables, d) for d in row]) for row in dr])
    if cfg["type"] == "PaPE":
        return parabolas(cfg, weights, h, x, dr) / math.sqrt(model.width)
    if cfg["type"] == "PaPERI":
        alpha = -F.softplus(x @ weights["encoding.wa"][h])
        return alpha[:, None] * weights["encoding.scale"][h] ** 2 * distance**2 / math.sqrt(model.width)
    return torch.zeros_like(distance)


def parabolas(cfg: dict[str, Any], weights: dict[str, Tensor], h: int, x: Tensor, dr: Tensor) -> Tensor:
    """<a_i, (Wp dr)^2> + <b_i, Wp dr>, equations 6 to 9, with the switches of Table 2."""

    def coefficients(name: str) -> Tensor:
        if cfg.get("context", True):
            return x @ weights[f"encoding.w{name}"][h].T
        return weights[f"encoding.{name}"][h].expand(len(x), -1)

    s = dr @ weights["encoding.wp"][h].T if cfg.get("project", True) else dr  # (n, n, m)
    total = torch.zeros_like(s[..., 0])
    if cfg.get("distance", True):
        raw = coefficients("a")
        a = -F.softplus(raw) if cfg.get("activation", True) else -raw
        total = total + torch.einsum("im,ijm->ij", a, s * s)
    if cfg.get("direction", True):
        total = total + torch.einsum("im,ijm->ij", coefficients("b"), s)
    return total


def table_value(cfg: dict[str, Any], tables: list[Tensor], dr: Tensor) -> Tensor:
    """One pair: the entries of its whole steps (halves up), cut at the reach; joint tables are row-major."""
    P = len(dr)
    reach = [cfg["reach"]] * P if isinstance(cfg["reach"], int) else cfg["reach"]
    steps = [min(max(math.floor(d + 0.5), -n), n) + n for d, n in zip(dr.tolist(), reach)]
    if not cfg.get("joint"):
        return torch.stack([table[step] for table, step in zip(tables, steps)]).sum()
    return tables[0].view(*[2 * n + 1 for n in reach])[tuple(steps)]


def published_slopes(heads: int) -> list[float]:
    return {
        3: [2**-4, 2**-8, 2**-2],
        8: [2**-1, 2**-2, 2**-3, 2**-4, 2**-5, 2**-6, 2**-7, 2**-8],
        12: [2**-1, 2**-2, 2**-3, 2**-4, 2**-5, 2**-6, 2**-7, 2**-8, 2**-0.5, 2**-1.5, 2**-2.5, 2**-3.5],
    }[heads]


@pytest.fixture(scope="session", name="reference")
def _reference() -> Callable[..., Tensor]:
    return reference


@pytest.fixture(scope="session")
def make() -> type[Model]:
    return Model


@pytest.fixture(scope="session")
def slopes() -> Callable[[int], list[float]]:
    return published_slopes


@pytest.fixture(scope="module")
def plain_flex() -> Iterator[None]:
    """torch's switch for debugging: flex calls the bias itself, not a trace of it, a hundred times sooner."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("torch.nn.attention.flex_attention._FLEX_ATTENTION_DISABLE_COMPILE_DEBUG", True, raising=False)
        yield
