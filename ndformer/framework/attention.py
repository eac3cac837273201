"""Self-attention with position encodings.

encoding = build_encoding(dict(type='PaPE', m=50), dim=384, heads=6, position_dims=2, depth=12)
attention = Attention(384, 6, encoding=encoding.layer(0, 12))
state = encoding.prepare(where)
y = attention(x, where, state)                                   # (B, N, dim)
terms = attention.logits(x, where, state, parts=True)            # attention logits, split by term
"""

from typing import Any, Literal, NamedTuple, overload

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ndformer.framework.bias.base import Bias
from ndformer.framework.encoding import LayerEncoding, PositionEncoding
from ndformer.framework.encoding.base import without_autocast
from ndformer.framework.encoding.composed import build_encoding
from ndformer.framework.encoding.grouped import GroupedState, each_group
from ndformer.framework.kernels import attend
from ndformer.framework.kernels.masks import attention_mask, bias_rows
from ndformer.framework.tokens import Where

__all__ = ["Attention", "LayerEncoding", "PositionEncoding", "attend", "attend_encoded", "build_encoding"]


class Vectors(NamedTuple):
    """Inputs of attention, each (B, H, N, h): q and k with and without the encoding, v without it, and the bias."""

    q: Tensor
    k: Tensor
    plain_q: Tensor
    plain_k: Tensor
    v: Tensor
    bias: Bias | None


def attend_encoded(
    encoding: LayerEncoding,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    x: Tensor,
    where: Where,
    state: Any,
    backend: str = "auto",
    numbers: Tensor | None = None,
) -> Tensor:
    """Return attention's outputs (B, H, N, h) from q, k, v without positions, with an encoding applied to all four.

    `numbers` are those of LayerEncoding.token_numbers(), if they are known already.
    """
    scale = v.shape[-1] ** -0.5
    q, k, bias = encoding(q, k, x, state, numbers)
    if not encoding.transforms_values:
        return attend(q, k, v, where, bias, scale, backend)
    with without_autocast(v):
        v = encoding.values(v, x, state)
    y = attend(q, k, v, where, bias, scale, backend)
    with without_autocast(y):
        return encoding.output(y, x, state)


class Attention(nn.Module):
    """Multi-head self-attention: qkv projection, position encoding, attend() and output projection."""

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
            raise ValueError(f"dim must be divisible by heads, got dim={dim} and heads={heads}")
        self.heads, self.head_dim, self.backend = heads, dim // heads, backend
        self.qkv = nn.Linear(dim, 3 * dim, bias=qkv_bias)  # q, k, v, then heads
        self.q_norm = nn.LayerNorm(self.head_dim) if qk_norm else nn.Identity()
        self.k_norm = nn.LayerNorm(self.head_dim) if qk_norm else nn.Identity()
        self.proj = nn.Linear(dim, dim)
        if not isinstance(encoding, LayerEncoding | None):
            raise TypeError(
                f"encoding must be a LayerEncoding, got {type(encoding).__name__}. "
                "Pass build_encoding(...).layer(index, depth)"
            )
        self.encoding = LayerEncoding() if encoding is None else encoding

    def forward(self, x: Tensor, where: Where, state: Any = None, encoding: LayerEncoding | None = None) -> Tensor:
        """Map (B, N, dim) to (B, N, dim), 0 for padding. `state` is that of the PositionEncoding, prepare(where).

        `encoding` overrides self.encoding (other position space).
        """
        encoding = self.encoding if encoding is None else encoding
        if isinstance(state, GroupedState):  # packed rows
            y = self._grouped(self._checked(x, where), state, encoding)
        else:
            q, k, v, x = self._plain(x, where, state, encoding)
            y = attend_encoded(encoding, q, k, v, x, where, state, self.backend).transpose(1, 2).flatten(2)
        y = self.proj(y)
        return y if where.padding is None else y.masked_fill(where.padding[..., None], 0)

    def _grouped(self, x: Tensor, state: GroupedState, encoding: LayerEncoding) -> Tensor:
        """Return attention's output (B, N, dim) of packed rows before the last projection, one call for each group."""
        x = each_group(encoding.input, x, state)
        if encoding.batch_statistics:
            qk_input = encoding.qk_input(x, state.packed_state)
        else:
            qk_input = each_group(encoding.qk_input, x, state)
        qkv = self._qkv(x, qk_input)
        with without_autocast(qkv):
            numbers = encoding.token_numbers(x, qkv)
        per_group = [None] * len(state.groups) if numbers is None else state.split(numbers)
        parts = []
        for group, part, inputs, n in zip(state.groups, state.split(qkv), state.split(x), per_group):
            q, k, v = self._heads(part)  # (R, H, K, h)
            y = attend_encoded(encoding, q, k, v, inputs, group.where, group.state, self.backend, n)
            parts.append(y.transpose(1, 2).flatten(2))
        return state.join(parts, x.shape)

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
        """Return logits (B, H, N, N) before the softmax, in float32 or float64; masked keys are -inf.

        With `parts`, return the terms by name, which sum to the logits: `semantic` (q k' scale, rotated if the encoding
        rotates), the terms of the bias (`distance`, `direction` ...) and `mask`. Logits of padding queries are
        undefined.
        """
        q, k, *_, bias = self.vectors(x, where, state, encoding)
        exact = torch.promote_types(q.dtype, torch.float32)
        N = q.shape[2]
        with without_autocast(q):
            terms = {"semantic": q.to(exact) @ k.to(exact).mT * self.head_dim**-0.5}
            for name, part in ({} if bias is None else bias.parts()).items():
                terms[name] = bias_rows(part, where, 0, N).expand_as(terms["semantic"])
            visible = attention_mask(where, 0, N)
            if visible is not None:
                visible = visible.expand(q.shape[0], 1, N, N)
                terms["mask"] = torch.zeros(visible.shape, dtype=exact, device=q.device).masked_fill(
                    ~visible, -torch.inf
                )
            return terms if parts else sum(terms.values(), torch.zeros((), dtype=exact, device=q.device))

    def vectors(self, x: Tensor, where: Where, state: Any = None, encoding: LayerEncoding | None = None) -> Vectors:
        """Return the vectors to compute logits outside this layer: q k' / sqrt(h) + bias."""
        encoding = self.encoding if encoding is None else encoding
        plain_q, plain_k, v, x = self._plain(x, where, state, encoding)
        q, k, bias = encoding(plain_q, plain_k, x, state)
        return Vectors(q, k, plain_q, plain_k, v, bias)

    def _plain(
        self, x: Tensor, where: Where, state: Any, encoding: LayerEncoding
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return q, k, v before the encoding, each (B, H, N, h), and the input of their projection."""
        x = encoding.input(self._checked(x, where), state)
        return *self._heads(self._qkv(x, encoding.qk_input(x, state))), x

    def _checked(self, x: Tensor, where: Where) -> Tensor:
        """Return x with 0 in padding, so that no NaN there reaches other tokens."""
        if x.shape[1] != where.positions.shape[1] or where.batch not in (1, x.shape[0]):
            raise ValueError(
                f"x must have {where.batch} rows of {where.positions.shape[1]} tokens like where, got {tuple(x.shape)}"
            )
        return x if where.padding is None else x.masked_fill(where.padding[..., None], 0)

    def _heads(self, qkv: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        q, k, v = qkv.unflatten(-1, (3, self.heads, self.head_dim)).permute(2, 0, 3, 1, 4)  # 3 of (B, H, N, h)
        return self.q_norm(q).to(v.dtype), self.k_norm(k).to(v.dtype), v  # norms return float32 under autocast

    def _qkv(self, x: Tensor, qk_input: Tensor) -> Tensor:
        """Return (B, N, 3 dim): v projected from x, q and k from `qk_input`."""
        if qk_input is x:
            return self.qkv(x)
        parts = [2 * x.shape[2], x.shape[2]]
        weights, biases = (
            self.qkv.weight.split(parts),
            (None, None) if self.qkv.bias is None else self.qkv.bias.split(parts),
        )
        return torch.cat([F.linear(*each) for each in zip((qk_input, x), weights, biases)], -1)
