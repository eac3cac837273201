"""The check of `custom_hooks`: which hooks of mmengine do not work here."""

from collections.abc import Iterator
from typing import Any

INSTEAD = dict(  # hooks that need mmengine's Runner, and what replaces them
    LoggerHook="train.log in the work dir has the losses, and `visualizer` writes curves",
    CheckpointHook="last.pth is saved after each epoch, and with `train_cfg.checkpoint_every` within epochs",
    ParamSchedulerHook="`schedule` sets the learning rate",
    EMAHook="`ema=dict(decay=0.999)` evaluates an average of the weights",
)


def hook_problems(kind: type, options: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield (key, problem) for a hook of class `kind` in a config."""
    if kind.__name__ in INSTEAD and kind.__module__.startswith("mmengine."):
        yield "type", f"mmengine's {kind.__name__} does not work in ndformer; remove it: {INSTEAD[kind.__name__]}"
