"""Promises about equal results: padded or packed batches, different kernels, and different forms of a bias."""

from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from ndformer.contract.promise import (
    CLOSE,
    CLOSE_FLOAT32,
    Broken,
    NotApplicable,
    Worst,
    difference,
    dtype_name,
    promise,
)
from ndformer.contract.trial import Trial
from ndformer.framework.bias.base import Bias
from ndformer.framework.kernels import attend
from ndformer.framework.kernels.flex import untraced

# FlexAttention is tested once per number of dimensions, each dtype padded and packed. Tracing is slow, so it is traced
# as on a GPU only in two dimensions or the nearest supported number.
FLEX = {
    1: (torch.float64, "padded"),
    2: (torch.float32, "packed"),
    3: (torch.float64, "packed"),
    4: (torch.float32, "padded"),
}


@promise("padded = packed = alone")
def padding(tried: Sequence[Trial]) -> str:
    if tried[0].encoding.needs_grid:
        raise NotApplicable("a full grid is never padded or packed")
    worst = Worst()
    for trial in tried:
        expected = torch.cat([trial(*trial.alone(sample))[0] for sample in trial.samples])
        for name, (x, where) in {"padded": trial.padded(torch.nan), "packed": trial.packed(torch.nan)}.items():
            assert where.valid is not None
            worst.compare(trial(x, where)[where.valid], expected, f"{name}, {trial.dims}-D")
    worst.require(
        f"a sample in a batch differs from the same sample alone by {worst}: padding or other samples have an "
        "effect. Use where.real and where.segment in means, counts and numbers of tokens"
    )
    return f"a sample gives the same in any batch ({worst.about})"


@promise("dense = sdpa = flex")
def backends(tried: Sequence[Trial]) -> str:
    worst, pointwise, traced = Worst(), True, min(tried, key=lambda t: abs(t.dims - 2)).dims
    for dtype, close in ((torch.float64, CLOSE), (torch.float32, CLOSE_FLOAT32)):
        for trial in (t.cast(dtype) for t in tried):
            calling = nullcontext if trial.dims == traced else untraced
            for layout, (x, where) in trial.layouts().items():
                case = f"{dtype_name(dtype)}, {layout}, {trial.dims}-D"
                slopes = [trial.using(backend).gradients(x, where) for backend in ("dense", "sdpa")]
                for a, b in zip(*slopes):
                    if a is not None and b is not None and a.isfinite().all():
                        worst.update(difference(b, a) / close, f"gradients of sdpa, {case}")
                with torch.no_grad(), calling():
                    for i, (q, k, v, bias) in enumerate(trial.each_layer(x, where)):
                        pointwise = bias is None or bias.pointwise
                        flex = i == 0 and pointwise and FLEX[trial.dims] == (dtype, layout)
                        expected = attend(q, k, v, where, bias, backend="dense")
                        for backend in ("sdpa", "flex") if flex else ("sdpa",):
                            value = attend(q, k, v, where, bias, backend=backend)
                            worst.update(difference(value, expected) / close, f"{backend}, {case}")
    worst.require(
        f"backends disagree, {worst.error:.1e} times more than rounding explains ({worst.case}): flex reads "
        "pair(), dense reads rows(), sdpa features() where `separable` is set. Make them equal",
        limit=1,
    )
    note = "" if pointwise else "; not on flex: the bias exists only as whole rows"
    return f"forward in float32 and float64, gradients of dense and sdpa{note}"


@promise("pair = rows")
def forms(tried: Sequence[Trial]) -> str:
    worst, kinds = Worst(), set[str]()
    for trial in tried:
        for layout, (x, where) in trial.layouts().items():
            for q, _, _, bias in trial.each_layer(x, where):
                if bias is None:
                    continue
                B, H, N = q.shape[:3]
                index = torch.meshgrid(*(torch.arange(n) for n in (B, H, N, N)), indexing="ij")
                total = torch.zeros(B, H, N, N, dtype=q.dtype)
                for name, part in {"": bias, **bias.parts()}.items():
                    case = f"{type(part).__name__}, {layout}, {trial.dims}-D"
                    rows = part.rows(0, N)
                    written = (
                        bool(name) and type(part).rows is not Bias.rows
                    )  # rows() is implemented, not derived from pair()
                    if not _fits(rows, (B, H, N, N)) or (written and rows.dim() != 4):
                        raise Broken(
                            f"rows(0, {N}) has shape {tuple(rows.shape)}, not {(B, H, N, N)} or 1 for B and H "
                            f"({case}): write rows() for all pairs of queries and keys, or only pair()"
                        )
                    rows = rows.expand(B, H, N, N)
                    worst.compare(part.rows(1, 3).expand(B, H, -1, N), rows[:, :, 1:3], f"rows(1, 3) of {case}")
                    if part.pointwise:
                        worst.compare(part.pair(*index), rows, f"pair of {case}")
                    total = total + rows if name else total
                    kinds.add(type(part).__name__)
                worst.compare(total, bias.rows(0, N).expand(B, H, N, N), f"sum of parts(), {layout}, {trial.dims}-D")
    if not kinds:
        raise NotApplicable("there is no bias")
    worst.require(
        f"two forms of one bias differ by {worst}: pair(b, h, i, j) is the value for query i and key j, with "
        "dr = r_j - r_i, rows(lo, hi) the same for queries lo..hi-1, and parts() sum to it"
    )
    return f"{', '.join(sorted(kinds))}: the same in all forms ({worst.about})"


def _fits(rows: Tensor, shape: tuple[int, ...]) -> bool:
    return all(have in (1, want) for have, want in zip(reversed(rows.shape), reversed(shape)))


@promise("pair fits a GPU")
def captures(tried: Sequence[Trial]) -> str:
    checked = 0
    for trial in tried:
        for *_, bias in trial.each_layer(*trial.first()):
            if bias is None or not bias.pointwise:
                continue
            checked += 1
            name, zero = type(bias).__name__, torch.zeros((), dtype=torch.int64)
            with Lookups() as lookups:
                bias.pair(zero, zero, zero, zero)
            for key, tensor in lookups.tensors.items():
                if tensor.requires_grad and lookups.times[key] > 1:
                    raise Broken(
                        f"{name}.pair() reads a tensor of shape {tuple(tensor.shape)} that gets a gradient "
                        f"{lookups.times[key]} times; FlexAttention on a GPU allows one: keep what it gives in a "
                        "variable, or give the bias one contiguous tensor for each, [t.contiguous() for t in "
                        "x.unbind()]"
                    )
                if not tensor.is_contiguous():
                    raise Broken(
                        f"{name}.pair() reads a tensor of shape {tuple(tensor.shape)} that is a strided view, which "
                        "compiled FlexAttention does not take: make it .contiguous() in __init__"
                    )
    if not checked:
        raise NotApplicable("there is no pair()")
    return "tensors are contiguous, and read once if they get a gradient"


class Lookups(TorchFunctionMode):
    """Record which tensors are indexed, and how often."""

    def __init__(self) -> None:
        super().__init__()
        self.times: Counter[int] = Counter()
        self.tensors: dict[int, Tensor] = {}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is Tensor.__getitem__:
            self.times[id(args[0])] += 1
            self.tensors[id(args[0])] = args[0]  # a reference, so that the id is not reused
        return func(*args, **(kwargs or {}))
