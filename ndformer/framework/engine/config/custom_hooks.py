"""The check of `custom_hooks`: their priorities, and hooks of mmengine that do not work here."""

from collections.abc import Iterator
from typing import Any

PRIORITIES = dict(HIGHEST=0, VERY_HIGH=10, HIGH=30, ABOVE_NORMAL=40, NORMAL=50, BELOW_NORMAL=60, LOW=70, VERY_LOW=90)
PRIORITIES |= dict(LOWEST=100)
PRIORITY = f"a whole number from 0 to 100 or one of {', '.join(PRIORITIES)}"
INSTEAD = dict(  # hooks that need mmengine's Runner, and what replaces them
    LoggerHook="train.log in the work dir has the losses, and `visualizer` writes curves",
    CheckpointHook="last.pth is saved after each epoch, and with `train_cfg.checkpoint_every` within epochs",
    ParamSchedulerHook="`schedule` sets the learning rate",
    EMAHook="`ema=dict(decay=0.999)` evaluates an average of the weights",
    PrepareTTAHook="`ndformer vote` averages several views",  # builds any `type`, also of a dotted path
    NaiveVisualizationHook="`ndformer test --show-dir` draws predictions",
    NPUProfilerHook="ProfilerHook, or --profile of train",
)


def priority_number(value: Any) -> int | None:
    """Return the number of a priority, such as 70 for "LOW"; None if it is no priority."""
    if isinstance(value, str):
        return PRIORITIES.get(value.upper())
    is_valid = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 100
    return value if is_valid else None


def hook_problems(kind: type, options: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield (key, problem) for a hook of class `kind` in a config."""
    if kind.__name__ in INSTEAD and kind.__module__.startswith("mmengine."):
        yield "type", f"mmengine's {kind.__name__} does not work in ndformer; remove it: {INSTEAD[kind.__name__]}"
    if "priority" in options and priority_number(options["priority"]) is None:
        yield "priority", f"takes {PRIORITY}, got {options['priority']!r}"
