"""Promises about gradients and half precision."""

import contextlib
import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ndformer.contract.places import FAR
from ndformer.contract.promise import Broken, Worst, dtype_name, promise
from ndformer.contract.trial import Trial
from ndformer.framework.bias.base import Bias
from ndformer.framework.encoding import LayerEncoding, PositionEncoding
from ndformer.framework.tokens import Where

HALF = 3.0  # allowed error in 16 bits, relative to that of attention without positions with logits of the same size


@promise("gradients")
def derivatives(tried: Sequence[Trial]) -> str:
    worst, size, count = Worst(), 1e-6, 0  # a step small enough not to cross kinks of ReLU
    for trial in (copy.deepcopy(t).using("dense") for t in tried):
        case = f"{trial.dims}-D"
        x, where = trial.first() if trial.encoding.needs_grid else trial.padded()
        x = (x + torch.randn_like(x)).requires_grad_()
        leaves = {"the tokens": x, **trial.weights()}
        count = max(count, len(leaves) - 1)
        for (name, leaf), slope in zip(leaves.items(), trial.gradients(x, where)):
            if slope is None:
                raise Broken(
                    f"{name} gets no gradient ({case}): never used, or cut off by .detach(), .data, torch.no_grad() or "
                    "a table that __init__ makes once"
                )
            if not slope.isfinite().all():
                raise Broken(
                    f"the gradient of {name} is NaN or infinite ({case}): a root or a division at 0, as between a "
                    "token and itself, or in a row of nothing but padding"
                )
            random = torch.randn_like(slope)
            direction = random / random.norm() + slope / slope.norm().clamp(min=1e-12)
            with torch.no_grad():
                start, sums = leaf.clone(), []
                for step in (size, -size):
                    leaf.copy_(start + step * direction)
                    sums.append(trial.sum(x, where))
                leaf.copy_(start)
            error = (sums[0] - sums[1]) / (2 * size) - (slope * direction).sum()
            worst.update((error.abs() / slope.norm().clamp(min=0.1)).item(), f"{name}, {case}")
    worst.require(
        f"a gradient differs from a finite difference by {worst.error:.0%} of its size ({worst.case}): part of it "
        "is cut off by .detach() or torch.no_grad(), or a custom backward is wrong",
        limit=0.01,
    )
    return f"of the tokens{f' and all {count} weights' if count else ''}, as in finite differences"


@promise("half precision")
def halves(tried: Sequence[Trial]) -> str:
    worst = Worst()
    cases = {
        "bfloat16": (torch.bfloat16, contextlib.nullcontext()),
        "float16": (torch.float16, contextlib.nullcontext()),
        "bfloat16 autocast": (torch.float32, torch.autocast("cpu", torch.bfloat16)),
    }
    for name, (dtype, autocast) in cases.items():
        for trial in (t.cast(dtype) for t in tried):
            case = f"{name}, {trial.dims}-D"
            x, where = trial.first() if trial.encoding.needs_grid else trial.padded(shift=FAR)
            with torch.no_grad(), autocast:
                if trial.encoding.embed(x, trial.encoding.prepare(where)).dtype != x.dtype:
                    raise Broken(
                        f"embed() does not return the {dtype_name(x.dtype)} it got ({case}): add table.to(x.dtype)"
                    )
                for q, k, v, bias in trial.each_layer(x, where):
                    if not q.dtype == k.dtype == v.dtype:
                        raise Broken(
                            f"qk() does not return the {dtype_name(v.dtype)} it got ({case}): end with .to(q.dtype)"
                        )
                    if bias is not None:
                        _check_precision(bias, x.shape[1], case)
                plain = _without_positions(trial, x, where)
                outputs = trial(x, where), plain(x, where)
            exact = [model.cast(torch.float64)(x.double(), where) for model in (trial, plain)]
            error, floor = ((y.double() - e).norm() / e.norm() for y, e in zip(outputs, exact))
            worst.update((error / floor).item(), case)
    cure = "make tables, angles and biases in the positions' dtype, and cast what is finished"
    if worst.error == torch.inf:
        raise Broken(f"outputs near {FAR:g} are NaN or infinite ({worst.case}), as where a square overflows: {cure}")
    worst.require(
        f"outputs near {FAR:g} are {worst.error:.1f} times as wrong as those without positions, {HALF:g} times are "
        f"allowed ({worst.case}): {cure}",
        limit=HALF,
    )
    return f"the bias is float32; errors are at most {worst.error:.1f} times those without positions"


def _check_precision(bias: Bias, N: int, case: str) -> None:
    zero = torch.zeros((), dtype=torch.int64)
    for name, part in bias.parts().items():
        values: list[Tensor] = [part.rows(0, N)]
        if part.pointwise:
            values.append(part.pair(zero, zero, zero, zero))
        for value in values:
            if value.dtype not in (torch.float32, torch.float64):
                raise Broken(
                    f"the bias ('{name}') is {dtype_name(value.dtype)} ({case}): bring weights and x to float32 first, "
                    "as weight.to(positions.dtype), and leave autocast off, as it is in bias()"
                )


class _AsSharp(LayerEncoding):
    """An encoding that multiplies q by a factor, for logits as large as those of the tested encoding."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def qk(self, q: Tensor, k: Tensor, x: Tensor, state: Any) -> tuple[Tensor, Tensor]:
        return q * self.factor, k


def _without_positions(trial: Trial, x: Tensor, where: Where) -> Trial:
    plain = copy.deepcopy(trial)
    plain.encoding = PositionEncoding(trial.dim, trial.heads, trial.dims, 2)
    for layer in plain.layers:
        layer.encoding = LayerEncoding()
    spreads = [[(q @ k.mT).float().std().item() for q, k, *_ in t.each_layer(x, where)] for t in (trial, plain)]
    for layer, with_positions, without in zip(plain.layers, *spreads):
        layer.encoding = _AsSharp(max(1.0, with_positions / without))
    return plain
