"""Names for things that configurations build: mmengine registries that find their modules, and help when they miss."""

from __future__ import annotations

import difflib
import importlib
import inspect
import pkgutil
from collections.abc import Iterable
from typing import Any

import mmengine.registry


class UnknownNameError(KeyError):
    """A name or an option that nothing answers to. (A KeyError whose message prints as it is.)"""

    def __str__(self) -> str:
        return str(self.args[0])


def nearest(name: str, known: Iterable[str]) -> str:
    """The end of a sentence about an unknown name: ", did you mean 'X'?", or "." where nothing is near."""
    folded = {k.lower(): k for k in known}
    close = [name.lower()] if name.lower() in folded else []
    close = close or [k for k in folded if len(name) > 2 and name.lower() in k]  # RoPE: AxialRoPE, RoPEMixed, not NoPE
    close = close or difflib.get_close_matches(name.lower(), folded, n=1, cutoff=0.5)
    meant = " or ".join(f"'{folded[k]}'" for k in close[:3])
    return f", did you mean {meant}?" if meant else "."


class Registry(mmengine.registry.Registry):
    """An mmengine registry of one kind of thing, found by name.

    `packages` are where things of this kind live: all their modules are imported at the first look-up, so a new file
    there needs no list to be entered in.
    """

    def __init__(self, name: str, *packages: str) -> None:
        super().__init__(name, scope="ndformer")
        self._packages = packages

    def get(self, key: str) -> Any:
        self._load()
        found = super().get(key)
        if found is None:
            names = sorted(self.module_dict)
            raise UnknownNameError(f"no {self.name} is called '{key}'{nearest(key, names)} Known: {', '.join(names)}")
        return found

    def create(self, cfg: dict[str, Any], **context: Any) -> Any:
        """Build `cfg` with arguments that its place in the model gives; an option nothing reads is an error."""
        if not isinstance(cfg, dict) or "type" not in cfg:
            raise TypeError(f"a {self.name} is given as dict(type='NAME', ...), got {cfg!r}")
        kind = self.get(cfg["type"]) if isinstance(cfg["type"], str) else cfg["type"]
        options = {key: value for key, value in cfg.items() if key != "type"}
        parameters = inspect.signature(kind).parameters
        if not any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
            for key in options:
                if key not in parameters or key in context:
                    free = [p for p in parameters if p not in context]
                    raise UnknownNameError(
                        f"{kind.__name__} has no option '{key}'{nearest(key, free)} It has: {', '.join(free)}"
                    )
        return kind(**context, **options)

    def _load(self) -> None:
        for name in self._packages:
            package = importlib.import_module(name)
            for module in pkgutil.walk_packages(package.__path__, name + "."):
                importlib.import_module(module.name)
        self._packages = ()


ENCODINGS = Registry("encoding", "ndformer.encodings")
MODALITIES = Registry("modality", "ndformer.modalities")
DATASETS = Registry("dataset", "ndformer.modalities")
TRANSFORMS = Registry("transform", "ndformer.modalities")
SAMPLES = Registry("sample", "ndformer.modalities")
MODELS = Registry("model")
BACKBONES = Registry("backbone", "ndformer.framework.backbones")
NECKS = Registry("neck", "ndformer.framework.necks")
HEADS = Registry("head", "ndformer.framework.heads")
METRICS = Registry("metric", "ndformer.framework.evaluation")
