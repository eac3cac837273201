"""The hooks of a run: their order, and their states in its checkpoints."""

import io
import re
from collections import Counter, OrderedDict
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ndformer.framework.engine.config.custom_hooks import PRIORITY, priority_number
from ndformer.framework.errors import DataError
from ndformer.framework.registry import HOOKS
from ndformer.framework.system import archive, processes

DICTS, LISTS = (dict, OrderedDict), (list, tuple)


class Hooks(list[Any]):
    """The hooks of a run, in order of their priorities; hooks with equal priority keep the order of the config."""

    def __init__(self, settings: Sequence[dict[str, Any]] | None) -> None:
        """With hooks of a config, mmengine's RuntimeInfoHook writes losses, rates and metrics to the message hub."""
        self._options: dict[int, str] = {}  # as text, by the id of the hook
        for options in [dict(type="RuntimeInfoHook"), *settings] if settings else []:
            hook = HOOKS.create({key: value for key, value in options.items() if key != "priority"})
            arguments = sorted(key for key in options if key not in ("type", "priority"))
            self._options[id(hook)] = " ".join(", ".join(f"{key}={options[key]!r}" for key in arguments).split())
            if "priority" in options:
                hook.priority = options["priority"]
            self.append(hook)
        self.sort(key=_priority)

    def state_dict(self) -> dict[str, Any]:
        """Return the states of the hooks that have `state_dict()`, by class and options."""
        states = {
            name: (hook, hook.state_dict()) for name, hook in self._name_hooks().items() if hasattr(hook, "state_dict")
        }
        for hook, state in states.values():
            _check_readable(type(hook).__name__, state)
        return {name: state for name, (_, state) in states.items()}

    def load_state_dict(self, states: dict[str, Any], is_same_config: bool = True) -> None:
        """Load the states of a checkpoint, and print which of them fit no hook and which hooks have none.

        Options may change if a class has only one hook. Older versions numbered all hooks, as in `Count.1`: such names
        are known if the config has the same hooks as that of the checkpoint.
        """
        named = self._name_hooks()
        if is_same_config:
            numbered = {f"{type(hook).__name__}.{i}": name for i, (name, hook) in enumerate(named.items())}
            states = {numbered.get(name, name): state for name, state in states.items()}
        named = {name: hook for name, hook in named.items() if hasattr(hook, "state_dict") or name in states}
        stored, current = (Counter(map(_class_name, names)) for names in (states, named))
        renamed = {_class_name(name): name for name in named}
        for name, state in states.items():
            kind = _class_name(name)
            hook = named.pop(renamed[kind] if stored[kind] == current[kind] == 1 else name, None)
            if hook is None:
                print(f"no hook of the config fits the state of {name} in the checkpoint: it is not loaded")
            elif hasattr(hook, "load_state_dict"):
                hook.load_state_dict(state)
        for name in named:
            print(f"the checkpoint has no state of the hook {name}: it starts anew")

    def _name_hooks(self) -> dict[str, Any]:
        """Return hooks by name: Count(every=2), and "Count(every=2) 2" for the second hook with the same options."""
        named: dict[str, Any] = {}
        counts: Counter[str] = Counter()
        for hook in self:
            options = self._options.get(id(hook))
            name = type(hook).__name__ + (f"({options})" if options else "")
            counts[name] += 1
            named[name if counts[name] == 1 else f"{name} {counts[name]}"] = hook
        return named


def _class_name(name: str) -> str:
    return re.split(r"\W", name, maxsplit=1)[0]


def _priority(hook: Any) -> int:
    priority = getattr(hook, "priority", "NORMAL")
    number = priority_number(priority)
    if number is None:  # of the class: the check of the config refuses that of the config
        raise DataError(
            f"{type(hook).__name__}.priority: expected {PRIORITY}, got {priority!r}. Change the class, or "
            "give `priority` in custom_hooks"
        )
    return number


def _check_readable(name: str, state: Any) -> None:
    """Raise unless the state of a hook can be read again: checkpoints are read without executing code."""
    if _is_readable(state):
        return
    place, value = _unreadable(state)
    kind = type(value)
    kind_name = kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"
    raise DataError(
        f"custom_hooks: expected dense tensors and plain values (strings, numbers of up to 64 bits, lists, dicts) from "
        f"the state_dict() of {name}, got {kind_name} at state_dict(){place}. Convert it, for example to a string"
    )


def _is_readable(value: Any) -> bool:
    file = io.BytesIO()
    try:
        torch.save(_with_empty_tensors(value), file)
        archive.unsealed(file, file.tell())
    except Exception:  # torch and pickle raise many kinds of errors
        return False
    return True


def _with_empty_tensors(value: Any) -> Any:
    """Return a copy of a state whose tensors have no elements, so that it is small."""
    if type(value) in DICTS:
        return {key: _with_empty_tensors(inner) for key, inner in value.items()}
    if type(value) in LISTS:
        return type(value)(map(_with_empty_tensors, value))
    if not isinstance(value, Tensor):
        return value
    return torch.empty(0) if processes.is_sharded(value) else value.detach().flatten()[:0].clone()


def _unreadable(value: Any, place: str = "") -> tuple[str, Any]:
    """Return the innermost part of a value that cannot be read, after its place, such as ['best'][0]."""
    parts: list[tuple[str, Any]] = []
    if type(value) in DICTS:
        parts = [(f"{place}[{key!r}]", part) for key, inner in value.items() for part in (key, inner)]
    elif type(value) in LISTS:
        parts = [(f"{place}[{i}]", inner) for i, inner in enumerate(value)]
    return next((_unreadable(part, inside) for inside, part in parts if not _is_readable(part)), (place, value))
