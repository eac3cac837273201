"""Promises about encodings that transform values and attention's output, and about those that use cameras."""

from collections.abc import Sequence

import torch
from torch import Tensor

from ndformer.contract.promise import CLOSE_FLOAT32, Broken, NotApplicable, Worst, dtype_name, promise
from ndformer.contract.trial import Sample, Trial, rigid_motions

HOOKS = "values", "output"


@promise("values and output")
def values(tried: Sequence[Trial]) -> str:
    if not any(layer.encoding.transforms_values for trial in tried for layer in trial.layers):
        raise NotApplicable("values are not transformed")
    unplaced, moved = Worst(), Worst()
    for trial in tried:
        for dtype in (torch.float64, torch.float32, torch.bfloat16):
            _check_form(trial.cast(dtype))
        x, where = trial.first()
        assert where.placed is not None
        is_unplaced, state = ~where.placed[0], trial.encoding.prepare(where)
        for layer in trial.layers:
            v = torch.randn(1, trial.heads, x.shape[1], layer.head_dim, dtype=x.dtype)
            for name in HOOKS:
                changed = getattr(layer.encoding, name)(v, x, state)
                unplaced.compare(changed[:, :, is_unplaced], v[:, :, is_unplaced], f"{name}(), {trial.dims}-D")
        if trial.encoding.translation_invariant and not trial.encoding.needs_grid:
            sample = trial.samples[1]  # all of its tokens have a position
            shifted = sample._replace(r=sample.r + sample.r.new_tensor([13.0, -7.0, 22.0, 5.0][: trial.dims]))
            moved.compare(_outputs(trial, shifted), _outputs(trial, sample), f"{trial.dims}-D")
    unplaced.require(f"values or outputs of a token without a position change by {unplaced}. Mask them with where.real")
    moved.require(
        f"translation_invariant is declared, but a translation changes outputs of attention by {moved}. output() "
        "must undo at the query what values() does at the key, or set translation_invariant = False",
        limit=CLOSE_FLOAT32,
    )
    return f"keep shape and dtype, and leave tokens without a position as they are; translations: {moved.about}"


@promise("cameras move together")
def cameras(tried: Sequence[Trial]) -> str:
    if not any(trial.encoding.uses_cameras for trial in tried):
        raise NotApplicable("cameras are not used")
    worst = Worst()
    for trial in tried:
        sample = trial.samples[1]  # all of its tokens have a position
        moved = sample._replace(cameras=sample.cameras @ rigid_motions(1))
        for name, function in {"logits": trial.logits, "outputs": trial}.items():
            worst.compare(function(*trial.alone(moved)), function(*trial.alone(sample)), f"{name}, {trial.dims}-D")
    worst.require(f"results change by {worst} when all cameras move together: use only relative cameras, P_i P_j^-1")
    return f"a motion of all cameras changes nothing ({worst.about})"


def _check_form(trial: Trial) -> None:
    for layout, (x, where) in trial.layouts().items():
        state = trial.encoding.prepare(where)
        v = torch.randn(len(x), trial.heads, x.shape[1], trial.layers[0].head_dim).to(x.dtype)
        for layer in trial.layers:
            for name in HOOKS:
                result = getattr(layer.encoding, name)(v, x, state)
                if result.shape != v.shape or result.dtype != v.dtype:
                    raise Broken(
                        f"{name}() must return the {dtype_name(v.dtype)} {tuple(v.shape)} that it got, "
                        f"got {dtype_name(result.dtype)} {tuple(result.shape)} ({layout}, {trial.dims}-D)"
                    )


def _outputs(trial: Trial, sample: Sample) -> Tensor:
    """Return the outputs of both layers for the same tokens."""
    x, where = trial.alone(sample)
    state = trial.encoding.prepare(where)
    return torch.cat([layer(x, where, state) for layer in trial.layers])
