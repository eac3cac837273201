"""Promises about positions: independence of token order, unplaced tokens, invariances, and precision far from 0."""

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from ndformer.contract.promise import CLOSE, CLOSE_FLOAT32, Broken, NotApplicable, Worst, promise
from ndformer.contract.trial import Sample, Trial
from ndformer.framework.kernels.masks import bias_rows
from ndformer.framework.tokens import Where

SMALL, FAR = 0.125, 512.0  # a step that 16 bits do not resolve at the distance FAR
MIN_EFFECT = 1e-9  # smallest change of outputs in float64 that counts


@promise("unplaced tokens")
def unplaced(tried: Sequence[Trial]) -> str:
    added, turned, biased, stored = Worst(), Worst(), Worst(), Worst()
    handled = False
    for trial in tried:
        case = f"{trial.dims}-D"
        x, where = trial.first()
        assert where.placed is not None
        is_unplaced = ~where.placed[0]
        nowhere = Where(where.positions, placed=torch.zeros_like(where.placed), grid=where.grid)
        state = trial.encoding.prepare(where)
        added.compare(trial.encoding.embed(x, state)[:, is_unplaced], x[:, is_unplaced], case)
        for passed in range(len(trial.layers) + 1):
            added.compare(trial.encoding.block_update(x, state, passed)[:, is_unplaced], x[:, is_unplaced], case)
        for i, layer in enumerate(trial.layers):
            before = torch.randn(2, 1, trial.heads, x.shape[1], layer.head_dim, dtype=x.dtype)
            *after, bias = layer.encoding(*before, x, state)
            if trial.encoding.changes_unplaced:  # as if no token had a position
                *before, _ = layer.encoding(*before, x, trial.encoding.prepare(nowhere))
            for a, b in zip(before, after):  # more channels may come, empty for these tokens
                wider = F.pad(a, (0, b.shape[-1] - a.shape[-1]))
                turned.compare(b[:, :, is_unplaced], wider[:, :, is_unplaced], f"layer {i}, {case}")
            if bias is not None and bias.handles_unplaced:
                handled = True
                if bias.placed is None:
                    raise Broken(f"layer {i}'s bias has handles_unplaced and no `placed`: where.placed says which")
            elif bias is not None:
                for name, part in bias.parts().items():
                    rows = bias_rows(part, where, 0, x.shape[1])
                    for values in (rows[:, :, is_unplaced], rows[..., is_unplaced]):
                        biased.compare(values, torch.zeros_like(values), f"'{name}' of layer {i}, {case}")
        elsewhere = trial.samples[0].r.masked_fill(is_unplaced[:, None], 1000.0)
        stored.compare(trial(*trial.first(elsewhere)), trial(x, where), case)
    if added.error > CLOSE and not tried[0].encoding.embeds_unplaced:
        raise Broken(f"the embedding adds {added} to a token without a position. Mask it with where.real")
    turned.require(f"q or k of a token without a position changes by {turned}. Mask it with where.real")
    biased.require(
        f"a pair with a token without a position gets a bias of {biased}. A bias and its parts() must agree on "
        "handles_unplaced",
        limit=0,
    )
    stored.require(f"the position stored for a token without a position changes outputs by {stored}")
    if tried[0].encoding.changes_unplaced:
        return "no bias, nothing added; q and k are as if no token had a position"
    if tried[0].encoding.embeds_unplaced:
        return "have an embedding of their own, no bias and no rotation"
    return "the bias handles them itself" if handled else "no bias, no rotation, nothing added"


@promise("token permutation")
def permutation(tried: Sequence[Trial]) -> str:
    if tried[0].encoding.needs_grid:
        raise NotApplicable("on a grid the order is the position")
    worst = Worst()
    for trial in tried:
        order = torch.tensor([3, 6, 0, 5, 1, 4, 2])
        shuffled = Sample(*(part[order] for part in trial.samples[0]))
        worst.compare(trial(*trial.alone(shuffled)), trial(*trial.first())[:, order], f"{trial.dims}-D")
    worst.require(
        f"tokens in another order, each with its position, give outputs that differ by {worst}: read the "
        "positions and not the order of tokens, or declare needs_grid"
    )
    return f"the order of tokens does not change outputs ({worst.about})"


@promise("translation invariance")
def translation(tried: Sequence[Trial]) -> str:
    def shift(trial: Trial, r: Tensor) -> Tensor:
        return r + r.new_tensor([13.0, -7.0, 22.0, 5.0][: trial.dims]) + (0.37 if trial.encoding.float_positions else 0)

    remedy = "only differences r_j - r_i, not rounded and not relative to a fixed point"
    return _invariance(tried, "translation_invariant", "a translation", shift, remedy)


@promise("rotation invariance")
def rotation(tried: Sequence[Trial]) -> str:
    def turn(trial: Trial, r: Tensor) -> Tensor:
        q, _ = torch.linalg.qr(torch.randn(trial.dims, trial.dims, dtype=r.dtype))
        q[:, 0] *= torch.linalg.det(q).sign()
        return r @ q.T

    if tried[0].encoding.needs_grid:
        raise NotApplicable("a rotated grid is not a grid")
    if not tried[0].encoding.float_positions:
        raise NotApplicable("a rotation does not keep positions integers")
    several = [trial for trial in tried if trial.dims > 1]
    remedy = "only lengths |r_j - r_i|, not rounded and not relative to a fixed point"
    return _invariance(several, "rotation_invariant", "a rotation about the origin", turn, remedy)


def _invariance(
    tried: Sequence[Trial], flag: str, move: str, transform: Callable[[Trial, Tensor], Tensor], remedy: str
) -> str:
    """Test the invariance of logits between placed tokens."""
    worst: dict[bool, Worst] = {}
    for trial in tried:
        sample = trial.samples[0]
        original, moved = (trial.logits(*trial.first(r)) for r in (sample.r, transform(trial, sample.r)))
        original, moved = (t[:, :, sample.placed][..., sample.placed] for t in (original, moved))
        worst.setdefault(getattr(trial.encoding, flag), Worst()).compare(moved, original, f"{trial.dims}-D")
    declared, undeclared = worst.get(True), worst.get(False)
    if declared is not None and declared.error > CLOSE_FLOAT32:
        raise Broken(
            f"{flag} is declared, but {move} changes logits by {declared}. Set {flag} = False, or use {remedy}"
        )
    if undeclared is not None and tried[0].encoding.needs_grid:
        return "not declared: on a grid, positions are indices of cells"
    if undeclared is not None and undeclared.error <= CLOSE_FLOAT32:
        return f"holds, but is not declared: consider {flag} = True"
    findings = [] if declared is None else [f"declared and true ({declared.about})"]
    findings += [] if undeclared is None else [f"not declared: {move} changes logits by {undeclared}"]
    if not findings:
        raise NotApplicable("one dimension has none")
    return "; ".join(findings)


@promise("precision of positions")
def precision(tried: Sequence[Trial]) -> str:
    if tried[0].encoding.needs_grid:
        raise NotApplicable("on a grid, positions are indices of cells")
    if tried[0].encoding.bounded:
        raise NotApplicable("positions beyond the extent are clamped to its border")
    step = SMALL if tried[0].encoding.float_positions else 1.0
    small = large = 0.0
    for trial in tried:
        x = trial.samples[1].x
        r = (trial.samples[1].r > 3).double()  # neighbors, so that they affect each other
        effect, far_effect, unit_effect = (_effect(trial, x, *move) for move in ((r, step), (r + FAR, step), (r, 1.0)))
        small, large = max(small, effect.max().item()), max(large, unit_effect.max().item())
        lost = (effect > MIN_EFFECT) & ~(far_effect > 1e-3 * effect)
        if lost.any():
            i = int((effect * lost).argmax())
            raise Broken(
                f"a step of {step:g} changes outputs by {effect[i]:.1e} near 0 but by {far_effect[i]:.1e} near {FAR:g} "
                f"({trial.dims}-D): positions are rounded on the way, as by .to(x.dtype) or .bfloat16(); keep their "
                "dtype, and take differences before products"
            )
    if small < MIN_EFFECT < large:
        raise Broken(
            f"a step of 1 changes outputs and a step of {step:g} does not: positions are rounded to integers. Set "
            "float_positions = False, or do not round"
        )
    return (
        f"a step of {step:g} changes outputs near {FAR:g} as it does near 0"
        if large > MIN_EFFECT
        else "positions do not change outputs"
    )


def _effect(trial: Trial, x: Tensor, base: Tensor, step: float) -> Tensor:
    """Return (n P): how much a step of one token along one axis changes outputs, for each token and axis."""
    n, P = base.shape
    moves = step * torch.eye(n * P, dtype=base.dtype).view(n * P, n, P)
    x = x.expand(n * P, -1, -1)
    moved, still = (trial(x, trial.where(base + move, None)) for move in (moves, torch.zeros_like(moves)))
    return (moved - still).flatten(1).abs().amax(1)


@promise("position interpolation")
def interpolation(tried: Sequence[Trial]) -> str:
    if any(tried[0].encoding.periods):
        raise NotApplicable("circles are not interpolated")
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
    worst.require(
        f"scale_positions = f and positions times f differ by {worst}: use the positions that tables() gets, not "
        "where.positions, and leave prepare() as it is"
    )
    return f"scale_positions = f is positions times f ({worst.about})"
