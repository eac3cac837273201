"""Checks of a resumed run: its best checkpoint, its optimizer state, its number of threads."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ndformer.framework.engine.training import checkpoint
from ndformer.framework.engine.training.optim import regrouped
from ndformer.framework.engine.training.optim_wrapper import OptimWrapper
from ndformer.framework.errors import DataError


def report_threads(before: int | None) -> None:
    """Print if the run used another number of threads before."""
    now = torch.get_num_threads()
    if before is not None and before != now:
        print(
            f"the run used {before} threads and continues with {now}: sums are computed in another order, so results "
            f"may differ in their last bits (OMP_NUM_THREADS={before} sets the old number)"
        )


def check_best(
    folder: Path, model: nn.Module, history: list[dict[str, float]], main: str, templates: Any = None
) -> None:
    """Raise unless best.pth is a checkpoint of this run, before more epochs are trained."""
    if not history:
        return
    path = folder / checkpoint.BEST
    remedy = "restore a copy of it, or start a new run"
    try:
        content = checkpoint.load(path, templates)
        checkpoint.check_weights(model, content, path)
    except DataError as error:
        raise DataError(f"{error}. It has the best weights of the run, which are tested at its end: {remedy}") from None
    last = folder / checkpoint.LAST
    for file, metrics in [(path, content.get("metrics", {})), *((last, epoch) for epoch in history)]:
        if main not in metrics:
            raise DataError(f"{file}: expected the metric {main}, which selects the best epoch: {remedy}")


def restore(wrapper: OptimWrapper, state: dict[str, Any], path: Path) -> None:
    """Load the counts and states of the optimizer and the fp16 gradient scaler, or raise if they do not fit."""
    wrapper.updates, wrapper.skipped, wrapper.batches = state["updates"], state["skipped"], state["iter"]
    groups = [dict(group) for group in wrapper.optimizer.param_groups]
    try:
        wrapper.optimizer.load_state_dict(regrouped(state["optimizer"], wrapper.optimizer))
        wrong = _mismatch(wrapper.optimizer, groups)
        if state["scaler"]:  # empty if the run did not use fp16
            wrapper.scaler.load_state_dict(state["scaler"])
    except (KeyError, ValueError, TypeError, IndexError, AttributeError, RuntimeError) as error:
        wrong = " ".join(str(error).split()) or type(error).__name__
    if wrong:
        raise DataError(
            f"the optimizer state in {path} does not fit the config's optimizer ({wrong:.200}). Give the config of "
            "that run"
        )


def _mismatch(optimizer: torch.optim.Optimizer, groups: list[dict[str, Any]]) -> str:
    """Return the first key that a group or a parameter's state lacks or has in another form; "" if none."""
    for group, expected in zip(optimizer.param_groups, groups):
        for key, value in expected.items():
            if key not in group:
                return f"its groups have no '{key}'"
            if key != "params" and not _is_alike(group[key], value):
                return f"'{key}' of its groups is a {type(group[key]).__name__}"
    names = [set(state) for state in optimizer.state.values()]
    if any(keys != names[0] for keys in names):
        return "the states of its parameters have different keys"
    for parameter, state in optimizer.state.items():
        for key, value in state.items():
            if isinstance(value, Tensor) and value.numel() != 1 and value.shape != parameter.shape:
                return f"{key} of shape {tuple(value.shape)} is for a parameter of shape {tuple(parameter.shape)}"
    return ""


def _is_alike(value: Any, expected: Any) -> bool:
    if isinstance(expected, (tuple, list)):
        is_sequence = isinstance(value, (tuple, list))
        return is_sequence and len(value) == len(expected) and all(map(_is_alike, value, expected))
    if isinstance(expected, (int, float)) and not isinstance(expected, bool):
        return isinstance(value, (int, float))
    return value is None or isinstance(value, bool) or type(value) is type(expected)
