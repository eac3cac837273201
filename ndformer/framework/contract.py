"""What every position encoding promises, one function per promise.

for result in check(lambda **place: build_encoding(dict(type='PaPE', m=8), **place)):
    print(result)

Each promise is tried in 1 to 4 position dimensions, on small random weights and tokens (trial.py). tools/check_encoding.py
runs this from the command line, and docs/new-encoding.md says what the promises mean for an encoding of one's own.
"""

from __future__ import annotations

import contextlib
import copy
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import wraps
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from ndformer.framework.bias import Bias
from ndformer.framework.encoding import LayerEncoding, PositionEncoding
from ndformer.framework.kernels import attend
from ndformer.framework.kernels.masks import bias_rows
from ndformer.framework.tokens import Where
from ndformer.framework.trial import Make, Sample, Trial

# Largest differences let pass, relative to max(1, largest magnitude). In float64 they leave room for an encoding that
# computes its tables in float32.
CLOSE = 1e-5
CLOSE_FLOAT32 = 1e-4
HALF = 3.0  # in 16 bit: the error of outputs, in errors of the same attention without positions

SMALL, FAR = 0.125, 512.0  # a move that 16 bits would not see, and where


@dataclass(frozen=True)
class Result:
    name: str
    passed: bool
    sentence: str
    error: Exception | None = field(default=None, repr=False)  # what the encoding raised, where it broke down

    def __str__(self) -> str:
        return f"{'pass' if self.passed else 'FAIL'}  {self.name:<24}  {self.sentence}"


class Broken(Exception):
    """A promise that is not kept; the message is the sentence to print."""


Promise = Callable[[Sequence[Trial]], Result]
PROMISES: list[Promise] = []


def check(make: Make) -> list[Result]:
    """One result per promise; one alone where the encoding does not even run. `make` is called as build_encoding is."""
    tried = trials(make)
    first, *others = PROMISES
    result = first(tried)
    return [result, *(promise(tried) for promise in others)] if result.passed else [result]


def trials(make: Make) -> list[Trial]:
    """One for each of 1 to 4 dimensions that the encoding takes; its own refusal where it takes none."""
    tried: list[Trial] = []
    refusals: list[ValueError] = []
    for dims in (1, 2, 3, 4):
        try:
            tried.append(Trial(make, dims))
        except ValueError as refusal:
            refusals.append(refusal)
    if not tried:
        raise refusals[0]
    return tried


def promise(name: str) -> Callable[[Callable[[Sequence[Trial]], str]], Promise]:
    """Enter a function in PROMISES: it returns a sentence on what it saw, or raises Broken with one."""

    def enter(function: Callable[[Sequence[Trial]], str]) -> Promise:
        @wraps(function)
        def run(tried: Sequence[Trial]) -> Result:
            with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
                torch.manual_seed(0)
                warnings.simplefilter("ignore")  # one line per promise is the answer
                try:
                    return Result(name, True, function(tried))
                except Broken as broken:
                    return Result(name, False, str(broken))
                except Exception as error:  # whatever a stranger's encoding may raise
                    return Result(name, False, f"it stops with {type(error).__name__}: {first_line(error)}", error)

        PROMISES.append(run)
        return run

    return enter


def first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), "(no message)")


class Worst:
    """The largest error met, and where."""

    def __init__(self) -> None:
        self.error, self.at = 0.0, ""

    def compare(self, value: Tensor, reference: Tensor, at: str) -> None:
        self.see(difference(value, reference), at)

    def see(self, error: float, at: str) -> None:
        if not error <= self.error:
            self.error, self.at = (error if error == error else torch.inf), at

    @property
    def about(self) -> str:
        return f"to {self.error:.0e}" if self.error else "exactly"

    def __str__(self) -> str:
        return f"{self.error:.1e} ({self.at})" if self.error < torch.inf else f"infinity or NaN ({self.at})"


def difference(value: Tensor, reference: Tensor) -> float:
    """The largest one, relative to max(1, largest magnitude). NaN, and infinities not in both, are infinitely wrong."""
    value, reference = value.detach().double(), reference.detach().double()
    finite = reference.isfinite()
    if not torch.equal(finite, value.isfinite()) or not torch.equal(value[~finite], reference[~finite]):
        return torch.inf
    if not finite.any():
        return 0.0
    value, reference = value[finite], reference[finite]
    return ((value - reference).abs().max() / reference.abs().max().clamp(min=1)).item()


# The promises. "4-D" in a sentence is the number of position dimensions in which the worst was seen.


@promise("builds and runs")
def runs(tried: Sequence[Trial]) -> str:
    for trial in tried:
        if not trial(*trial.first()).isfinite().all():
            raise Broken(f"outputs are NaN or infinite ({trial.dims}-D): is something divided by 0?")
    dims = [trial.dims for trial in tried]
    sentence = f"in {', '.join(map(str, dims))} position dimensions"
    for other in {1, 2, 3, 4} - set(dims):
        try:
            Trial(tried[0].make, other)
        except ValueError as refusal:
            sentence += f"; not in {other}: {first_line(refusal)}"
    return sentence


@promise("padded = packed = alone")
def padding(tried: Sequence[Trial]) -> str:
    if tried[0].encoding.needs_grid:
        return "not tried: a full grid is never padded or packed"
    worst = Worst()
    for trial in tried:
        expected = torch.cat([trial(*trial.alone(sample))[0] for sample in trial.samples])
        for name, (x, where) in {"padded": trial.padded(torch.nan), "packed": trial.packed(torch.nan)}.items():
            assert where.valid is not None
            worst.compare(trial(x, where)[where.valid], expected, f"{name}, {trial.dims}-D")
    if worst.error > CLOSE:
        raise Broken(
            f"a sample in a batch differs from the same sample alone by {worst}: something reaches over from padding "
            "or from other samples; means, counts and numbers of tokens want where.real and where.segment"
        )
    return f"a sample gives the same in any batch ({worst.about})"


@promise("dense = sdpa = flex")
def backends(tried: Sequence[Trial]) -> str:
    worst = Worst()
    pointwise = True
    for dtype, close in ((torch.float64, CLOSE), (torch.float32, CLOSE_FLOAT32)):
        for trial in (t.cast(dtype) for t in tried):
            # flex takes a while to trace: once per number of dimensions, each dtype padded and packed
            chosen = {1: ("float64", "padded"), 2: ("float32", "packed"), 3: ("float64", "packed")}
            for layout, (x, where) in trial.layouts().items():
                at = f"{_name(dtype)}, {layout}, {trial.dims}-D"
                slopes = [gradients(trial.using(backend), x, where) for backend in ("dense", "sdpa")]
                for a, b in zip(*slopes):
                    if a is not None and b is not None:
                        worst.see(difference(b, a) / close, f"gradients of sdpa, {at}")
                with torch.no_grad():
                    for i, (q, k, v, bias) in enumerate(trial.each_layer(x, where)):
                        pointwise = bias is None or has_pair(bias)
                        flex = (
                            pointwise
                            and i == 0
                            and chosen.get(trial.dims, ("float32", "padded"))
                            == (
                                _name(dtype),
                                layout,
                            )
                        )
                        expected = attend(q, k, v, where, bias, backend="dense")
                        for backend in ("sdpa", "flex") if flex else ("sdpa",):
                            value = attend(q, k, v, where, bias, backend=backend)
                            worst.see(difference(value, expected) / close, f"{backend}, {at}")
    if worst.error > 1:
        raise Broken(
            f"backends disagree, {worst.error:.1e} times more than rounding explains ({worst.at}): flex reads pair(), "
            "dense reads rows(), sdpa features() where `separable` is set; do they say the same?"
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
                grid = torch.meshgrid(*(torch.arange(n) for n in (B, H, N, N)), indexing="ij")
                total = torch.zeros(B, H, N, N, dtype=q.dtype)
                for name, part in {"": bias, **bias.parts()}.items():
                    at = f"{type(part).__name__}, {layout}, {trial.dims}-D"
                    rows = part.rows(0, N)
                    if rows.shape[2:] != (N, N) or rows.shape[0] not in (1, B) or rows.shape[1] not in (1, H):
                        raise Broken(
                            f"rows(0, {N}) has shape {tuple(rows.shape)}, not {(B, H, N, N)} ({at}): where only pair() "
                            "is written, size is (B, H, N), which q.shape[:3] gives"
                        )
                    rows = rows.expand(B, H, N, N)
                    worst.compare(part.rows(1, 3).expand(B, H, -1, N), rows[:, :, 1:3], f"rows(1, 3) of {at}")
                    if has_pair(part):
                        worst.compare(part.pair(*grid), rows, f"pair of {at}")
                    total = total + rows if name else total
                    kinds.add(type(part).__name__)
                worst.compare(total, bias.rows(0, N).expand(B, H, N, N), f"sum of parts(), {layout}, {trial.dims}-D")
    if not kinds:
        return "not tried: there is no bias"
    if worst.error > CLOSE:
        raise Broken(
            f"two forms of one bias differ by {worst}: pair(b, h, i, j) is the value for query i and key j, with "
            "dr = r_j - r_i, rows(lo, hi) the same for queries lo..hi-1, and parts() sum to it"
        )
    return f"{', '.join(sorted(kinds))}: the same in all forms ({worst.about})"


@promise("pair fits a GPU")
def captures(tried: Sequence[Trial]) -> str:
    seen = 0
    for trial in tried:
        for *_, bias in trial.each_layer(*trial.first()):
            if bias is None or not has_pair(bias):
                continue
            zero = torch.zeros((), dtype=torch.int64)
            with Lookups() as lookups:
                bias.pair(zero, zero, zero, zero)
            seen += 1
            for key, tensor in lookups.tensors.items():
                if tensor.requires_grad and lookups.times[key] > 1:
                    raise Broken(
                        f"{type(bias).__name__}.pair() reads a tensor of shape {tuple(tensor.shape)} that gets a "
                        f"gradient {lookups.times[key]} times; FlexAttention on a GPU allows one: keep what it gives "
                        "in a variable, or give the bias several tensors"
                    )
                if not tensor.is_contiguous():
                    raise Broken(
                        f"{type(bias).__name__}.pair() reads a tensor of shape {tuple(tensor.shape)} that is a strided "
                        "view; compiled FlexAttention does not take it: make it .contiguous() in the bias' __init__"
                    )
    return (
        "each tensor is contiguous, and read once where it gets a gradient" if seen else "not tried: there is no pair()"
    )


@promise("unplaced tokens")
def unplaced(tried: Sequence[Trial]) -> str:
    added, turned, biased, stored = Worst(), Worst(), Worst(), Worst()
    handled = False
    for trial in tried:
        at = f"{trial.dims}-D"
        x, where = trial.first()
        assert where.placed is not None
        here = ~where.placed[0]
        state = trial.encoding.prepare(where)
        added.compare(trial.encoding.embed(x, state)[:, here], x[:, here], at)
        for i, layer in enumerate(trial.layers):
            before = torch.randn(2, 1, trial.heads, x.shape[1], layer.head_dim, dtype=x.dtype)
            *after, bias = layer.encoding(*before, x, state)
            for a, b in zip(before, after):  # more channels may come, empty for these tokens
                turned.compare(b[:, :, here], F.pad(a, (0, b.shape[-1] - a.shape[-1]))[:, :, here], f"layer {i}, {at}")
            if bias is not None and bias.handles_unplaced:
                handled = True
            elif bias is not None:
                for name, part in bias.parts().items():
                    rows = bias_rows(part, where, 0, x.shape[1])
                    for values in (rows[:, :, here], rows[..., here]):
                        biased.compare(values, torch.zeros_like(values), f"'{name}' of layer {i}, {at}")
        elsewhere = trial.samples[0].r.masked_fill(here[:, None], 1000.0)
        stored.compare(trial(*trial.first(elsewhere)), trial(x, where), at)
    if added.error > CLOSE:
        raise Broken(f"the embedding adds {added} to a token that has no place: where.real says which tokens have one")
    if turned.error > CLOSE:
        raise Broken(
            f"q or k of a token that has no place is changed by {turned}: where.real says which tokens have one"
        )
    if biased.error > 0:
        raise Broken(
            f"a pair with a token that has no place gets a bias of {biased}: do parts() handle_unplaced as one?"
        )
    if stored.error > CLOSE:
        raise Broken(f"the position stored for a token that has no place changes outputs by {stored}")
    return "the bias handles them itself" if handled else "have no position: no bias, no turn, nothing added"


@promise("token permutation")
def permutation(tried: Sequence[Trial]) -> str:
    if tried[0].encoding.needs_grid:
        return "not tried: on a grid the order is the position"
    worst = Worst()
    for trial in tried:
        order = torch.tensor([3, 6, 0, 5, 1, 4, 2])
        shuffled = Sample(*(part[order] for part in trial.samples[0]))
        worst.compare(trial(*trial.alone(shuffled)), trial(*trial.first())[:, order], f"{trial.dims}-D")
    if worst.error > CLOSE:
        raise Broken(
            f"tokens in another order, each with its position, give outputs that differ by {worst}: the number of a "
            "token is not its place; read the positions, or declare needs_grid"
        )
    return f"the order of tokens means nothing ({worst.about})"


@promise("translation invariance")
def translation(tried: Sequence[Trial]) -> str:
    def shift(trial: Trial, r: Tensor) -> Tensor:
        return r + r.new_tensor([13.0, -7.0, 22.0, 5.0][: trial.dims]) + (0.37 if trial.encoding.float_positions else 0)

    return _invariance(tried, "translation_invariant", "a move of all positions", shift)


@promise("rotation invariance")
def rotation(tried: Sequence[Trial]) -> str:
    def turn(trial: Trial, r: Tensor) -> Tensor:
        q, _ = torch.linalg.qr(torch.randn(trial.dims, trial.dims, dtype=r.dtype))
        q[:, 0] *= torch.linalg.det(q).sign()
        return r @ q.T

    if not tried[0].encoding.float_positions:
        return "not tried: a turn does not keep whole steps"
    several = [trial for trial in tried if trial.dims > 1]
    return _invariance(several, "rotation_invariant", "a turn about the origin", turn)


def _invariance(tried: Sequence[Trial], flag: str, move: str, moved: Callable[[Trial, Tensor], Tensor]) -> str:
    """Between placed pairs, before the softmax."""
    worst: dict[bool, Worst] = {}
    for trial in tried:
        sample = trial.samples[0]
        here, there = (trial.logits(*trial.first(r)) for r in (sample.r, moved(trial, sample.r)))
        here, there = (t[:, :, sample.placed][..., sample.placed] for t in (here, there))
        worst.setdefault(getattr(trial.encoding, flag), Worst()).compare(there, here, f"{trial.dims}-D")
    declared, others = worst.get(True), worst.get(False)
    if declared is not None and declared.error > CLOSE_FLOAT32:
        raise Broken(
            f"{flag} is declared, but {move} changes logits by {declared}: say {flag} = False, or look only at "
            "differences r_j - r_i, neither rounded nor taken from a fixed point"
        )
    if others is not None and others.error <= CLOSE_FLOAT32:
        return f"holds undeclared: a hint that {flag} = True would be right"
    said = [] if declared is None else [f"declared and kept ({declared.about})"]
    said += [] if others is None else [f"not declared: {move} changes logits by {others}"]
    return "; ".join(said) or "not tried: one dimension has none"


@promise("precision of positions")
def precision(tried: Sequence[Trial]) -> str:
    if tried[0].encoding.needs_grid:
        return "not tried: places on a grid are counted, not measured"
    step = SMALL if tried[0].encoding.float_positions else 1.0
    seen = 0
    for trial in tried:
        sample = trial.samples[1]
        places = sample.r.round()
        near, far, unit = (
            _effect(trial, sample.x, base, move) for base, move in ((places, step), (places + FAR, step), (places, 1.0))
        )
        if near.max() < 1e-9 < unit.max():
            raise Broken(
                f"a move of 1 changes outputs but none of {step:g} does ({trial.dims}-D): positions are rounded to whole "
                "steps; say float_positions = False, or do not round"
            )
        lost = (near > 1e-9) & ~(far > 1e-3 * near)
        if lost.any():
            at = int((near * lost).argmax())
            raise Broken(
                f"a move of {step:g} changes outputs by {near[at]:.1e} near 0 but by {far[at]:.1e} near {FAR:g} "
                f"({trial.dims}-D): positions are rounded on the way, as by .to(x.dtype) or .bfloat16(); keep their "
                "dtype, and take differences before products"
            )
        seen += int((near > 1e-9).sum())
    if not seen:
        return "positions change nothing: attention over a set"
    return f"a move of {step:g} is seen near {FAR:g} as it is near 0"


def _effect(trial: Trial, x: Tensor, base: Tensor, step: float) -> Tensor:
    """(n P) how much a move of one token along one axis changes outputs, for each token and axis."""
    n, P = base.shape
    moves = step * torch.eye(n * P, dtype=base.dtype).view(n * P, n, P)
    x = x.expand(n * P, -1, -1)
    moved, still = (trial(x, trial.where(base + move)) for move in (moves, torch.zeros_like(moves)))
    return (moved - still).flatten(1).abs().amax(1)


@promise("gradients")
def derivatives(tried: Sequence[Trial]) -> str:
    worst, size, count = Worst(), 1e-3, 0
    for trial in (t.using("dense") for t in copy.deepcopy(list(tried))):
        x, where = trial.first() if trial.encoding.needs_grid else trial.padded()
        x = (x + torch.randn_like(x)).requires_grad_()
        leaves = {"the tokens": x, **trial.weights()}
        count = max(count, len(leaves) - 1)
        for (name, leaf), slope in zip(leaves.items(), gradients(trial, x, where)):
            at = f"{trial.dims}-D"
            if slope is None:
                raise Broken(
                    f"{name} gets no gradient ({at}): never used, or cut off by .detach(), .data, torch.no_grad() or "
                    "a table that __init__ makes once"
                )
            if not slope.isfinite().all():
                raise Broken(
                    f"the gradient of {name} is NaN or infinite ({at}): a root or a division at 0, as between a token "
                    "and itself, or in a row of nothing but padding"
                )
            random = torch.randn_like(slope)
            direction = random / random.norm() + slope / slope.norm().clamp(min=1e-12)
            with torch.no_grad():
                start, sums = leaf.clone(), []
                for step in (size, -size):
                    leaf.copy_(start + step * direction)
                    sums.append(_sum(trial(x, where)))
                leaf.copy_(start)
            error = (sums[0] - sums[1]) / (2 * size) - (slope * direction).sum()
            worst.see((error.abs() / slope.norm().clamp(min=0.1)).item(), f"{name}, {at}")
    if worst.error > 0.01:
        raise Broken(
            f"a gradient is off by {worst.error:.0%} of its size, says a finite difference ({worst.at}): part of it is "
            "cut off by .detach() or torch.no_grad(), or a backward of one's own is wrong"
        )
    return f"of the tokens{f' and all {count} weights' if count else ''}, as finite differences say"


def gradients(trial: Trial, x: Tensor, where: Where) -> list[Tensor | None]:
    """Of some sum of the outputs, by the features and by the encoding's weights."""
    x = x.detach().requires_grad_()
    return list(torch.autograd.grad(_sum(trial(x, where)), [x, *trial.weights().values()], allow_unused=True))


def _sum(y: Tensor) -> Tensor:
    return (y * torch.randn(y.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64).to(y)).sum()


@promise("half precision")
def halves(tried: Sequence[Trial]) -> str:
    worst = Worst()
    cases = {
        "bfloat16": (torch.bfloat16, contextlib.nullcontext()),
        "float16": (torch.float16, contextlib.nullcontext()),
        "bfloat16 autocast": (torch.float32, torch.autocast("cpu", torch.bfloat16)),
    }
    for name, (dtype, context) in cases.items():
        for trial in (t.cast(dtype) for t in tried):
            at = f"{name}, {trial.dims}-D"
            x, where = trial.first() if trial.encoding.needs_grid else trial.padded(shift=FAR)
            plain = _without_positions(trial)
            with torch.no_grad(), context:
                if trial.encoding.embed(x, trial.encoding.prepare(where)).dtype != x.dtype:
                    raise Broken(f"embed() does not return the {_name(x.dtype)} it got ({at}): add table.to(x.dtype)")
                for q, k, v, bias in trial.each_layer(x, where):
                    if not q.dtype == k.dtype == v.dtype:
                        raise Broken(f"qk() does not return the {_name(v.dtype)} it got ({at}): end with .to(q.dtype)")
                    if bias is not None:
                        _at_least_float32(bias, x.shape[1], at)
                outputs = trial(x, where), plain(x, where)
            exact = [model.cast(torch.float64)(x.double(), where) for model in (trial, plain)]
            error, floor = ((y.double() - e).norm() / e.norm() for y, e in zip(outputs, exact))
            worst.see((error / floor).item(), at)
    if worst.error > HALF:
        raise Broken(
            f"outputs near {FAR:g} are {worst.error:.1f} times as wrong as those without positions, {HALF:g} are allowed "
            f"({worst.at}): compute tables, angles and biases in the positions' dtype, and cast only what is finished"
        )
    return f"the bias is float32; errors are at most {worst.error:.1f} times those without positions"


def _at_least_float32(bias: Bias, N: int, at: str) -> None:
    zero = torch.zeros((), dtype=torch.int64)
    for name, part in bias.parts().items():
        for value in [part.rows(0, N)] + ([part.pair(zero, zero, zero, zero)] if has_pair(part) else []):
            if value.dtype not in (torch.float32, torch.float64):
                raise Broken(
                    f"the bias ('{name}') is {_name(value.dtype)} ({at}): bring weights and x to float32 first, as "
                    "weight.to(positions.dtype), and leave autocast off, as it is in bias()"
                )


def _without_positions(trial: Trial) -> Trial:
    plain = copy.deepcopy(trial)
    plain.encoding = PositionEncoding(trial.dim, trial.heads, trial.dims, 2)
    for layer in plain.layers:
        layer.encoding = LayerEncoding()
    return plain


@promise("layers are the caller's")
def ownership(tried: Sequence[Trial]) -> str:
    for trial in tried:
        encoding = trial.another()
        layers = [encoding.layer(0, 2), encoding.layer(0, 2)]
        names: dict[int, str] = {}
        both = nn.ModuleDict({"encoding": encoding, "layer": layers[0], "another": layers[1]})
        for name, value in both.state_dict(keep_vars=True).items():
            other = names.setdefault(id(value), name)
            if other != name:
                raise Broken(
                    f"'{other}' and '{name}' are one tensor, twice in a checkpoint: do not keep what layer() returns, "
                    "nor the encoding or its modules in a layer; what layers share goes through the state"
                )
        modules = [module for owner in (encoding, *layers) for module in owner.modules()]
        if len({id(module) for module in modules}) < len(modules):
            raise Broken(
                "layer() returns a module that the encoding or another layer holds too: make a new one each time, and "
                "do not keep it"
            )
    return "layer() makes a new module each time; no weight is held twice"


@promise("same seed, same numbers")
def seeded(tried: Sequence[Trial]) -> str:
    for trial in tried:
        one, other = (Trial(trial.make, trial.dims) for _ in range(2))
        again = other.state_dict()
        for name, value in one.state_dict().items():
            if not torch.equal(value, again[name]):
                raise Broken(
                    f"'{name}' differs between two encodings built after one torch.manual_seed: draw it with torch, not "
                    "with numpy or random"
                )
        if difference(one(*one.first()), other(*other.first())) > 0:
            raise Broken("two encodings built after one torch.manual_seed answer differently: what else is drawn?")
    return "torch.manual_seed decides every number"


@promise("one state for all layers")
def shared(tried: Sequence[Trial]) -> str:
    worst = Worst()
    for trial in tried:
        x, where = trial.first()
        expected = trial(x, where)
        state = trial.encoding.prepare(where)
        trial.encoding.prepare(trial.first(2 * trial.samples[0].r + 1)[1])
        for use in ("after another batch was prepared", "used again"):
            worst.compare(trial.with_state(x, where, state), expected, f"{use}, {trial.dims}-D")
    if worst.error > 0:
        raise Broken(
            f"a state gives other outputs later, by {worst}: tables() returns all that layers need and keeps nothing in "
            "self, and nobody changes a state in place"
        )
    return "prepared once, a state serves all layers and stays as it is"


@promise("torch.compile")
def compiles(tried: Sequence[Trial]) -> str:
    trial = min(tried, key=lambda t: abs(t.dims - 2)).cast(torch.float32).using("auto")
    x, where = trial.first() if trial.encoding.needs_grid else trial.padded()
    torch._dynamo.reset()
    try:
        y = torch.compile(trial, fullgraph=True, backend="aot_eager")(x.requires_grad_(), where)
        _sum(y).backward()
    except Exception as error:
        said = " ".join(line.strip() for line in str(error).strip().splitlines()[:2])
        raise Broken(
            f"it does not fit in one graph ({said[:200]}): no .item(), .tolist(), print, numpy or Python branch on the "
            "values of tensors"
        ) from error
    finally:
        torch._dynamo.reset()
    error = difference(y, trial(x, where))
    if error > CLOSE_FLOAT32:
        raise Broken(
            f"compiled outputs differ by {error:.1e}: is a tensor changed in place, or something kept in self?"
        )
    return "one graph, forward and backward"


@promise("position interpolation")
def interpolation(tried: Sequence[Trial]) -> str:
    worst = Worst()
    for trial in tried:
        r = trial.samples[0].r
        each = [0.5, 2.0, 0.25, 1.5] if trial.encoding.float_positions else [2.0, 3.0, 1.0, 2.0]
        for factor in (each[0], each[: trial.dims]):
            x, where = trial.first()
            expected = trial(*trial.first(r * torch.tensor(factor, dtype=r.dtype)))
            trial.encoding.scale_positions = factor
            try:
                worst.compare(trial(x, where), expected, f"f = {factor}, {trial.dims}-D")
            finally:
                trial.encoding.scale_positions = 1.0
    if worst.error > CLOSE:
        raise Broken(
            f"scale_positions = f and positions times f differ by {worst}: use the positions that tables() gets, not "
            "where.positions, and leave prepare() as it is"
        )
    return f"scale_positions = f is positions times f ({worst.about})"


def has_pair(bias: Bias) -> bool:
    return all(type(part).pair is not Bias.pair for part in bias.parts().values())


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


class Lookups(TorchFunctionMode):
    """Notes which tensors are indexed, and how often."""

    def __init__(self) -> None:
        super().__init__()
        self.times: Counter[int] = Counter()
        self.tensors: dict[int, Tensor] = {}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is Tensor.__getitem__:
            self.times[id(args[0])] += 1
            self.tensors[id(args[0])] = args[0]  # kept alive, so that no other gets its id
        return func(*args, **(kwargs or {}))
