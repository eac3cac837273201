"""A separable bias as extra channels of q and k (concatenated features), so that flash attention needs no mask for it.

What PaPE says of each parabola becomes channels in one pass on a CPU where numba is installed (kernel fusion). One
after the other, as torch has them, these are some fifty operations, and in a model, whose weights pass through the
cache between any two blocks, each waits for memory.
"""

from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from ndformer.framework.bias.parabolas import MixtureBias, QuadraticBias, SeparableBias
from ndformer.framework.bias.riding import Near
from ndformer.framework.jit import in_memory, numba_works
from ndformer.framework.kernels import channels_numba
from ndformer.framework.tokens import Where

WIDEST = 24  # channels of a head
FEWEST = 2**15  # numbers that are said of a sample for which a compiler is worth waking


class Wide(NamedTuple):
    q: Tensor  # (B, H, N, W)
    k: list[Tensor]  # for each call of attention
    v: Tensor


def widened(q: Tensor, k: Tensor, v: Tensor, where: Where, bias: SeparableBias, scale: float) -> Wide:
    """q, k and v, all as wide, to a multiple of 8, so that q k' has the bias in it, once it is scaled."""
    if isinstance(bias, MixtureBias) and bias.near is not None and _in_one_pass(q, k, v, bias, bias.near):
        places = _places(bias.near, where, scale, q.shape[-1])
        make = _Channels.apply if torch.is_grad_enabled() else _Channels.forward
        q, k, v = make(q, k, v, bias.values, bias.weights, places)
        return Wide(q, [k], v)
    fq, fk = features(where, bias, scale)
    spare = -(q.shape[-1] + fq.shape[-1]) % 8
    q = torch.cat([q, fq.expand(*q.shape[:3], -1), q.new_zeros(1).expand(*q.shape[:3], spare)], dim=-1)
    none = k.new_zeros(1).expand(*k.shape[:3], spare)
    wide = [torch.cat([k, keys.expand(*k.shape[:3], -1), none], dim=-1) for keys in fk]
    return Wide(q, wide, as_wide(v, q.shape[-1]))


def features(where: Where, bias: SeparableBias, scale: float) -> tuple[Tensor, Tensor]:
    """The bias as extra channels of q and, for each call, of k, in float32."""
    fq, fk = bias.features()
    fq = fq / scale
    if where.placed is not None:
        placed = where.placed[:, None, :, None]
        fq, fk = torch.where(placed, fq, 0.0), torch.where(placed, fk, 0.0)
    return fq.float(), fk.float()


def as_wide(v: Tensor, width: int) -> Tensor:
    """Flash attention wants q, k and v equally wide."""
    return v if v.shape[-1] >= width else F.pad(v, (0, width - v.shape[-1]))


def pays(x: Tensor, q: Tensor, near: Near | None, said: int) -> bool:
    """Return whether a MixtureBias of tokens (B, N, D), `said` numbers each, is made channels in one pass."""
    return (
        near is not None
        and not near.calls
        and q.shape[-1] > WIDEST  # in narrower heads torch's own operations are faster
        and x.shape[1] * said >= FEWEST
        and x.device.type == "cpu"
        and x.dtype == q.dtype == torch.float32
        and not torch.compiler.is_compiling()
        and in_memory(x)
        and numba_works()
    )


def _in_one_pass(q: Tensor, k: Tensor, v: Tensor, bias: MixtureBias, near: Near) -> bool:
    """Not where an encoding beside it has widened q and k already, nor where torch.func transforms weights alone."""
    plain = all(t.dtype == torch.float32 and t.stride(-1) == 1 for t in (q, k, v))
    plain = plain and all(map(in_memory, (q, k, v, bias.values, bias.weights)))
    return plain and q.device.type == "cpu" and q.shape == v.shape and q.numel() > 0 and not near.calls


class _Places(NamedTuple):
    """As the loops want them, of F channels and what fills them up to W - h."""

    basis: Any  # (B or 1, N, P(P+1)/2 + P, W - h) a query's channels for each coefficient, where that is 1
    powers: Any  # (B or 1, N, W - h) a key's


_made: WeakKeyDictionary[Where, tuple[Near, tuple[float, int], _Places]] = (
    WeakKeyDictionary()
)  # for all layers of a model


def _places(near: Near, where: Where, scale: float, h: int) -> _Places:
    made = _made.get(where)
    if made is not None and made[0] is near and made[1] == (scale, h):
        return made[2]
    P, (B, _, N) = len(near.axes), near.axes[0].queries.shape
    entries = P * (P + 1) // 2
    units = [unit[None, :, None].expand(B, -1, N) for unit in torch.eye(entries + P)]  # each as if it were of a head
    bias = QuadraticBias(units[:entries], units[entries:], where.positions, near)
    queries, keys = features(where, bias, scale)  # (B or 1, T + P, N, F), (1, B or 1, 1, N, F)
    pad = (0, -(h + queries.shape[-1]) % 8)
    places = _Places(F.pad(queries.transpose(1, 2), pad).numpy(), F.pad(keys[0, :, 0], pad).numpy())
    _made[where] = near, (scale, h), places
    return places


class _Channels(torch.autograd.Function):
    @staticmethod
    def forward(  # pyright: ignore[reportIncompatibleMethodOverride]
        q: Tensor, k: Tensor, v: Tensor, values: Tensor, weights: Tensor, places: _Places
    ) -> tuple[Tensor, Tensor, Tensor]:
        B, H, N, h = q.shape
        wide = [q.new_empty(B, H, N, h + places.powers.shape[-1]) for _ in range(3)]
        (q_, k_, v_), steps = zip(*map(_flat, (q, k, v)))
        given = values.view(B * N, -1).numpy(), _in_threes(weights).numpy(), *places
        loops = channels_numba.forward()
        loops(torch.get_num_threads(), B * N, q_, k_, v_, np.array(steps), h, *given, *(t.numpy() for t in wide))
        return wide[0], wide[1], wide[2]

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        q, _, _, values, weights, ctx.places = inputs
        ctx.save_for_backward(values, weights)
        ctx.h = q.shape[-1]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dq: Tensor, dk: Tensor, dv: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        values, weights = ctx.saved_tensors
        B, N, H, _ = values.shape
        dq = dq if dq.stride(-1) == 1 else dq.contiguous()
        (flat, steps), w = _flat(dq), _in_threes(weights)
        parts = -(-B * N // channels_numba.TOKENS)
        dvalues, dw = torch.empty_like(values), values.new_zeros(parts, *w.shape)
        given, of_given = (t.view(B * N, -1).numpy() for t in (values, dvalues))
        terms = given, w.numpy(), ctx.places.basis, of_given, dw.numpy()
        channels_numba.backward()(torch.get_num_threads(), parts, flat, np.array(steps), ctx.h, *terms)
        dweights = dw[:, :, : weights.shape[1]].sum(0, dtype=torch.float64).to(weights.dtype)
        return *(t[..., : ctx.h] for t in (dq, dk, dv)), dvalues, dweights, None


def _in_threes(weights: Tensor) -> Tensor:
    """(H, T, m), T filled up with 0 to a multiple of three, as the loops take them."""
    return F.pad(weights, (0, 0, 0, -weights.shape[1] % 3)).contiguous()


def _flat(t: Tensor) -> tuple[Any, tuple[int, ...]]:
    """(B, H, N, C) as it lies in memory, and the steps from one to the next."""
    size = 1 + sum((n - 1) * step for n, step in zip(t.shape, t.stride()))
    return t.detach().as_strided((size,), (1,)).numpy(), t.stride()[:3]
