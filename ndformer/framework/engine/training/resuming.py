"""Whether a run goes on as what it was: with its own best checkpoint, optimizer, average and threads."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ndformer.framework.engine.training import checkpoint
from ndformer.framework.engine.training.runner import AmpWrapper
from ndformer.framework.errors import DataError


def say_threads(before: int | None) -> None:
    now = torch.get_num_threads()
    if before is not None and before != now:
        print(
            f"the run computed with {before} threads and goes on with {now}: sums are taken in another order, so that "
            f"results may differ in their last bits (OMP_NUM_THREADS={before} gives as many as before)"
        )


def check_best(folder: Path, model: nn.Module, history: list[dict[str, float]], main: str) -> None:
    """best.pth is whole and of this run now, and not found wanting when all epochs are done."""
    if not history:
        return
    path = folder / checkpoint.BEST
    remedy = "put a copy of it back, or start anew"
    try:
        content = checkpoint.load(path)
        checkpoint.check_weights(model, content, path)
    except DataError as error:
        raise DataError(f"{error}. It has the run's best weights, with which it ends: {remedy}") from None
    for about, there in [(path, content.get("metrics", {})), *((folder / checkpoint.LAST, one) for one in history)]:
        if main not in there:
            raise DataError(f"{about} has no {main}, by which a run knows its best epoch: {remedy}")


def restore(wrapper: AmpWrapper, state: dict[str, Any], path: Path) -> None:
    """The optimizer and the scaler of fp16 as they were, or a sentence where the state is of others."""
    own = [dict(group) for group in wrapper.optimizer.param_groups]
    try:
        wrapper.optimizer.load_state_dict(state["optimizer"])
        wrong = _misfits(wrapper.optimizer, own)
        if state["scaler"]:  # none is of a run that was not in fp16
            wrapper.scaler.load_state_dict(state["scaler"])
    except (KeyError, ValueError, TypeError, IndexError, AttributeError, RuntimeError) as error:
        wrong = " ".join(str(error).split()) or type(error).__name__
    if wrong:
        raise DataError(f"the optimizer in {path} is another one ({wrong:.200}): give the config that it was made with")


def _misfits(optimizer: torch.optim.Optimizer, own: list[dict[str, Any]]) -> str:
    """What a group or a parameter lacks, or has of another form; "" if nothing."""
    for group, was in zip(optimizer.param_groups, own):
        for key, value in was.items():
            if key not in group:
                return f"its groups have no '{key}'"
            if key != "params" and not _alike(group[key], value):
                return f"'{key}' of its groups is a {type(group[key]).__name__}"
    kept = [set(one) for one in optimizer.state.values()]
    if any(keys != kept[0] for keys in kept):
        return "parameters are remembered in different ways"
    for parameter, remembered in optimizer.state.items():
        for key, value in remembered.items():
            if isinstance(value, Tensor) and value.numel() != 1 and value.shape != parameter.shape:
                return f"{key} of shape {tuple(value.shape)} is for a parameter of shape {tuple(parameter.shape)}"
    return ""


def _alike(one: Any, other: Any) -> bool:
    if isinstance(other, (tuple, list)):
        return isinstance(one, (tuple, list)) and len(one) == len(other) and all(map(_alike, one, other))
    if isinstance(other, (int, float)) and not isinstance(other, bool):
        return isinstance(one, (int, float))
    return one is None or isinstance(one, bool) or type(one) is type(other)
