"""Self-attention that is told where its tokens are.

encoding = build_encoding(dict(type='PaPE', m=50), dim=384, heads=6, position_dims=2, depth=12)
attention = Attention(384, 6, encoding=encoding.layer(0, 12))
state = encoding.prepare(where)
y = attention(x, where, state)                                   # (B, N, dim)
terms = attention.logits(x, where, state, parts=True)            # where it looks, and why
"""

from typing import Any, Literal, NamedTuple, overload

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ndformer.framework.bias.base import Bias
from ndformer.framework.encoding import LayerEncoding, PositionEncoding
from ndformer.framework.encoding.base import without_autocast
from ndformer.framework.encoding.composed import build_encoding
from ndformer.framework.kernels import attend
from ndformer.framework.kernels.masks import bias_rows, seen
from ndformer.framework.tokens import Where

__all__ = ["Attention", "LayerEncoding", "PositionEncoding", "attend", "build_encoding"]


class Vectors(NamedTuple):
    """What logits are made of: queries and keys as they meet, and as they were before the encoding changed them, each
    (B, H, N, h), and its bias."""

    q: Tensor
    k: Tensor
    plain_q: Tensor
    plain_k: Tensor
    bias: Bias | None


class Attention(nn.Module):
    """Projections, a layer's position encoding, and one call of attend()."""

    def __init__(
        self,
        dim: int,
        heads: int,
        encoding: LayerEncoding | None = None,
        qkv_bias: bool = True,
        qk_norm: bool = False,
        backend: str = "auto",
    ) -> None:
        super().__init__()
        if dim % heads:
            raise ValueError(f"dim {dim} does not divide into {heads} heads")
        self.heads, self.head_dim, self.backend = heads, dim // heads, backend
        self.qkv = nn.Linear(dim, 3 * dim, bias=qkv_bias)  # q, k, v, then heads
        self.q_norm = nn.LayerNorm(self.head_dim) if qk_norm else nn.Identity()
        self.k_norm = nn.LayerNorm(self.head_dim) if qk_norm else nn.Identity()
        self.proj = nn.Linear(dim, dim)
        if not isinstance(encoding, LayerEncoding | None):
            raise TypeError(
                f"encoding is one layer's part of a position encoding, build_encoding(...).layer(index, depth), "
                f"got {type(encoding).__name__}"
            )
        self.encoding = LayerEncoding() if encoding is None else encoding

    def forward(self, x: Tensor, where: Where, state: Any = None, encoding: LayerEncoding | None = None) -> Tensor:
        """(B, N, dim) -> (B, N, dim), 0 for padding. `encoding`: these weights over another position space."""
        q, k, v, bias = self._project(x, where, state, encoding)
        y = attend(q, k, v, where, bias, self.head_dim**-0.5, self.backend)  # (B, H, N, h)
        y = self.proj(y.transpose(1, 2).flatten(2))
        return y if where.valid is None else y.masked_fill(~where.valid[..., None], 0)

    @overload
    def logits(
        self,
        x: Tensor,
        where: Where,
        state: Any = ...,
        encoding: LayerEncoding | None = ...,
        *,
        parts: Literal[False] = ...,
    ) -> Tensor: ...
    @overload
    def logits(
        self, x: Tensor, where: Where, state: Any = ..., encoding: LayerEncoding | None = ..., *, parts: Literal[True]
    ) -> dict[str, Tensor]: ...
    def logits(
        self, x: Tensor, where: Where, state: Any = None, encoding: LayerEncoding | None = None, *, parts: bool = False
    ) -> Tensor | dict[str, Tensor]:
        """(B, H, N, N) before the softmax, in float32 or float64; keys that a query does not see are -inf.

        With `parts`, the terms by name: `semantic` (q k' scale, rotated where the encoding rotates), those of the bias
        (`distance`, `direction` ...) and `mask`; they sum to the logits. Logits of padding queries mean nothing.
        """
        q, k, _, bias = self._project(x, where, state, encoding)
        exact = torch.promote_types(q.dtype, torch.float32)
        N = q.shape[2]
        with without_autocast(q):
            terms = {"semantic": q.to(exact) @ k.to(exact).mT * self.head_dim**-0.5}
            for name, part in ({} if bias is None else bias.parts()).items():
                terms[name] = bias_rows(part, where, 0, N).expand_as(terms["semantic"])
            visible = seen(where, 0, N)
            if visible is not None:
                visible = visible.expand(q.shape[0], 1, N, N)
                terms["mask"] = torch.zeros(visible.shape, dtype=exact, device=q.device).masked_fill(
                    ~visible, -torch.inf
                )
            return terms if parts else sum(terms.values(), torch.zeros((), dtype=exact, device=q.device))

    def vectors(self, x: Tensor, where: Where, state: Any = None, encoding: LayerEncoding | None = None) -> Vectors:
        """For who computes logits elsewhere: q k' / sqrt(h), and to it the bias."""
        encoding = self.encoding if encoding is None else encoding
        plain_q, plain_k, _, x = self._plain(x, where, state, encoding)
        q, k, bias = encoding(plain_q, plain_k, x, state)
        return Vectors(q, k, plain_q, plain_k, bias)

    def _project(
        self, x: Tensor, where: Where, state: Any, encoding: LayerEncoding | None
    ) -> tuple[Tensor, Tensor, Tensor, Bias | None]:
        encoding = self.encoding if encoding is None else encoding
        q, k, v, x = self._plain(x, where, state, encoding)
        q, k, bias = encoding(q, k, x, state)
        return q, k, v, bias

    def _plain(
        self, x: Tensor, where: Where, state: Any, encoding: LayerEncoding
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """q, k, v before the encoding, and what they are made from."""
        if x.shape[1] != where.positions.shape[1] or where.batch not in (1, x.shape[0]):
            raise ValueError(
                f"x is {tuple(x.shape)}, where has {where.batch} rows of {where.positions.shape[1]} tokens"
            )
        if where.valid is not None:
            x = x.masked_fill(~where.valid[..., None], 0)  # whatever padding holds, NaN too, stays there
        x = encoding.input(x, state)
        qkv = self._qkv(x, encoding.asked(x, state)).unflatten(-1, (3, self.heads, self.head_dim))
        q, k, v = qkv.permute(2, 0, 3, 1, 4)  # 3 of (B, H, N, h)
        q, k = self.q_norm(q).to(v.dtype), self.k_norm(k).to(v.dtype)  # norms answer in float32 under autocast
        return q, k, v, x

    def _qkv(self, x: Tensor, asked: Tensor) -> Tensor:
        """(B, N, 3 dim): v from x, q and k from what is asked with."""
        if asked is x:
            return self.qkv(x)
        parts = [2 * x.shape[2], x.shape[2]]
        weights, biases = (
            self.qkv.weight.split(parts),
            (None, None) if self.qkv.bias is None else self.qkv.bias.split(parts),
        )
        return torch.cat([F.linear(*each) for each in zip((asked, x), weights, biases)], -1)
