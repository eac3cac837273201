"""Hooks of mmengine: `custom_hooks` of a config, called by the training loop at all of mmengine's points."""

from collections.abc import Sequence
from typing import Any

from ndformer.framework.errors import DataError
from ndformer.framework.registry import HOOKS

PRIORITIES = dict(HIGHEST=0, VERY_HIGH=10, HIGH=30, ABOVE_NORMAL=40, NORMAL=50, BELOW_NORMAL=60, LOW=70, VERY_LOW=90)
PRIORITIES |= dict(LOWEST=100)


class Hooks(list[Any]):
    """The hooks of a run, in order of their priorities; hooks with equal priority keep the order of the config."""

    def __init__(self, settings: Sequence[dict[str, Any]] | None) -> None:
        """With hooks of a config, mmengine's RuntimeInfoHook writes losses, rates and metrics to the message hub."""
        for options in [dict(type="RuntimeInfoHook"), *settings] if settings else []:
            hook = HOOKS.create({key: value for key, value in options.items() if key != "priority"})
            if "priority" in options:
                hook.priority = options["priority"]
            self.append(hook)
        self.sort(key=_priority)

    def state_dict(self) -> dict[str, Any]:
        """Return the states of the hooks that have `state_dict()`, by class name and number."""
        return {name: hook.state_dict() for name, hook in self._named() if hasattr(hook, "state_dict")}

    def load_state_dict(self, states: dict[str, Any]) -> None:
        for name, hook in self._named():
            if name in states and hasattr(hook, "load_state_dict"):
                hook.load_state_dict(states[name])

    def _named(self) -> list[tuple[str, Any]]:
        return [(f"{type(hook).__name__}.{i}", hook) for i, hook in enumerate(self)]


def _priority(hook: Any) -> int:
    value = getattr(hook, "priority", "NORMAL")
    value = PRIORITIES.get(value.upper()) if isinstance(value, str) else int(value)
    if value is None or not 0 <= value <= 100:
        choices = ", ".join(PRIORITIES)
        raise DataError(
            f"custom_hooks: expected a priority of 0 to 100 or one of {choices}, got {hook.priority!r} for "
            f"{type(hook).__name__}"
        )
    return value
