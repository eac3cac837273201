"""FlexAttention: flash attention with any pointwise bias on a GPU. On a CPU it is forward only, for tests.

It is compiled once for all shapes (dynamic) and separately for each kind of bias and mask. If torch cannot compile it,
or has reached its recompile limit, the dense backend computes attention instead, a chunk at a time.
"""

import copy
import warnings
from contextlib import AbstractContextManager
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention.flex_attention import flex_attention

from ndformer.framework.bias.base import Bias
from ndformer.framework.bias.pointwise import TableBias
from ndformer.framework.kernels.backend import Backend, on_gpu
from ndformer.framework.kernels.dense import Dense
from ndformer.framework.kernels.masks import placed_for
from ndformer.framework.kernels.sdpa import SDPA
from ndformer.framework.kernels.tiles import block_mask, buffer
from ndformer.framework.tokens import Where

VARIANTS = 64  # recompile limit: combinations of bias, mask, dtype, head width and guards on shapes
FAILED: set[tuple[object, ...]] = set()  # kinds of calls that failed to compile; each attempt takes many seconds
LIMIT = (
    f"FlexAttention reached its limit of {VARIANTS} compiled variants. Attention uses backend 'dense', which is slower"
)


class Flex(Backend):
    """FlexAttention for biases with `pair`: with gradients on a GPU, without on a CPU. Supports packed rows."""

    name, packed = "flex", True

    def serves(self, q: Tensor, k: Tensor, v: Tensor, where: Where, bias: Bias | None) -> bool:
        return (bias is None or bias.pointwise) and not _learning_on_cpu(q, k, v)

    def preferred(self, q: Tensor, where: Where, bias: Bias | None) -> bool:
        """Prefer packed rows, and biases whose mask does not fit in memory; where it fits, `sdpa` is faster."""
        if not on_gpu(q) or q.dtype == torch.float64:
            return False
        if where.segment is not None or bias is None:
            return where.segment is not None
        slow = torch.is_grad_enabled() and any(isinstance(part, TableBias) for part in bias.parts().values())
        return not slow and not SDPA().preferred(q, where, bias)

    def pairs_in_memory(self, q: Tensor, where: Where, bias: Bias | None) -> int:
        B, H, N, _ = q.shape
        return 0 if on_gpu(q) else B * H * N * N

    def __call__(self, q: Tensor, k: Tensor, v: Tensor, where: Where, bias: Bias | None, scale: float) -> Tensor:
        if bias is not None and not bias.pointwise:
            raise TypeError(
                f"backend 'flex' requires a bias with pair(), got {type(bias).__name__}. Use backend 'dense' or 'sdpa'"
            )
        if _learning_on_cpu(q, k, v):
            raise RuntimeError(
                "backend 'flex' cannot compute gradients on a CPU. Use backend 'sdpa' or 'dense', or torch.no_grad()"
            )
        B, width = q.shape[0], v.shape[-1]
        q, k, v = (F.pad(t, (0, max(0, 16 - t.shape[-1]))) for t in (q, k, v))  # the GPU kernel's minimum width
        eager = on_gpu(q) and not torch.compiler.is_compiling()
        if eager and _kind(q, bias) in FAILED:
            return Dense()(q, k, v, where, bias, scale)[..., :width]
        options: dict[str, Any] = dict(
            score_mod=score_mod(where, bias, B), block_mask=block_mask(where, B), scale=scale
        )
        if not eager:
            return flex_attention(q, k, v, **options)[..., :width]  # pyright: ignore[reportIndexIssue]
        try:
            # integers of a bias (the size of a table) must be constants: Inductor cannot capture symbolic ones
            with torch._dynamo.config.patch(recompile_limit=VARIANTS, specialize_int=True):
                return compiled()(q, k, v, **options)[..., :width]
        except Exception as error:
            from torch._dynamo import exc  # here: importing dynamo takes long

            if isinstance(error, exc.FailOnRecompileLimitHit):
                warnings.warn(LIMIT, stacklevel=2)
            elif isinstance(error, exc.TorchDynamoException):  # from dynamo, or InductorError from its compiler
                FAILED.add(_kind(q, bias))
                warnings.warn(describe_failure(error, q, bias), stacklevel=2)
            else:
                raise
            return Dense()(q, k, v, where, bias, scale)[..., :width]


def _kind(q: Tensor, bias: Bias | None) -> tuple[object, ...]:
    return type(bias), q.dtype, q.shape[-1], torch.is_grad_enabled()


def describe_failure(error: Exception, q: Tensor, bias: Bias | None) -> str:
    name = "no bias" if bias is None else type(bias).__name__
    cause = f"{type(error).__name__}: {(str(error).strip() or '?').splitlines()[0]:.120}"
    return (
        f"backend 'flex' must compile FlexAttention for {name} in {str(q.dtype).removeprefix('torch.')}, got {cause}. "
        "Attention uses backend 'dense', which is slower; set backend='sdpa' or backend='dense' on the model."
    )


def untraced() -> AbstractContextManager[Any]:
    """Run FlexAttention eagerly on a CPU through torch's debug switch: fast, because nothing is traced."""
    from unittest.mock import patch  # here: only tests need it

    return patch("torch.nn.attention.flex_attention._FLEX_ATTENTION_DISABLE_COMPILE_DEBUG", True, create=True)


def _learning_on_cpu(q: Tensor, k: Tensor, v: Tensor) -> bool:
    return q.device.type == "cpu" and torch.is_grad_enabled() and any(t.requires_grad for t in (q, k, v))


def score_mod(where: Where, bias: Bias | None, batch: int) -> Any:
    """Return the bias as FlexAttention's score_mod; None without a bias."""
    if bias is None:
        return None
    placed = placed_for(bias, where)
    placed = None if placed is None else buffer(placed.expand(batch, -1))
    if where.positions.device.type == "cpu" or not torch.compiler.is_compiling():  # torch 2.11 cannot trace the copy
        bias = with_buffers(bias)

    def modify(score: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        value = bias.pair(b, h, i, j)
        if placed is not None:
            value = torch.where(placed[b, i] & placed[b, j], value, 0.0)
        return score + value.to(score.dtype)  # the kernel requires the dtype of its scores

    return modify


def with_buffers(bias: Bias) -> Bias:
    """Return a copy of the bias whose tensors, also nested in lists and biases, are buffers."""

    def fixed(value: Any) -> Any:
        if isinstance(value, Tensor):
            return buffer(value)
        if isinstance(value, Bias):
            return with_buffers(value)
        return [fixed(v) for v in value] if isinstance(value, list) else value

    bias = copy.copy(bias)
    for name, value in vars(bias).items():
        setattr(bias, name, fixed(value))
    return bias


@cache
def compiled() -> Any:
    return torch.compile(flex_attention, dynamic=True, fullgraph=True)
