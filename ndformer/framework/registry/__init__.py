"""Registries: classes by their names in configs, found without a list, with a suggestion for unknown names."""

import importlib
import pkgutil
from typing import Any

from ndformer.framework.errors import UnknownNameError as UnknownNameError
from ndformer.framework.errors import nearest
from ndformer.framework.registry.renamed import current_options, current_type
from ndformer.framework.registry.signature import arguments, fits, in_words
from ndformer.framework.system import host_state, opencv

with host_state.importing():
    import mmengine.registry


class Registry(mmengine.registry.Registry):
    """An mmengine registry of one kind of class.

    `packages` are packages or modules with such classes. All their modules are imported at the first lookup, so a new
    file is found without a list. With `typed`, create() checks options against the annotations of the constructor, as
    the check of configs does.
    """

    def __init__(self, name: str, *packages: str, typed: bool = False) -> None:
        super().__init__(name, scope="ndformer")
        self._packages, self._typed = packages, typed
        self.synonyms: dict[str, str] = {}  # lower-case names in papers and other libraries, and ours

    def all(self) -> dict[str, Any]:
        """Return all registered classes by name."""
        self._load()
        return self.module_dict

    def get(self, key: str) -> Any:
        """Return the class with this name, without importing modules in dotted names, as mmengine does."""
        kind = self.module_dict.get(self.current_name(key).removeprefix(f"{self.scope}."))
        if kind is None:
            names = sorted(self.module_dict)
            synonym = self.synonyms.get(key.lower())
            suggestion = nearest(key, names) if synonym is None else f", did you mean '{synonym}'?"
            rest = f" Known: {', '.join(names)}. For a class of your own set custom_imports.imports=MODULE"
            raise UnknownNameError(
                f"no {self.name} is called '{key}'{suggestion}{'' if suggestion.endswith('?') else rest}"
            )
        return kind

    def current_name(self, key: str) -> str:
        """Return the new name of a class if `key` is its old one, with a warning, and other names as they are."""
        return current_type(key, self.all())

    def create(self, cfg: dict[str, Any], **context: Any) -> Any:
        """Build the class of `cfg` with its options and the arguments in `context`; unknown options raise an error."""
        if not isinstance(cfg, dict) or "type" not in cfg:
            raise TypeError(f"{self.name}: expected dict(type='NAME', ...), got {cfg!r:.60}")
        kind = self.get(cfg["type"]) if isinstance(cfg["type"], str) else cfg["type"]
        options = current_options(kind, {key: value for key, value in cfg.items() if key != "type"})
        names, extra = arguments(kind)
        for key, value in options.items():
            if key in context or not (key in names or extra):
                free = [name for name in names if name not in context]
                raise UnknownNameError(
                    f"{kind.__name__} has no option '{key}'{nearest(key, free)} It has: {', '.join(free)}"
                )
            hint = names[key].hint if self._typed and key in names else Any
            if not fits(value, hint):
                raise ValueError(f"{kind.__name__}: {key} must be {in_words(hint)}, got {value!r}")
        return kind(**context, **options)

    def _load(self) -> None:
        for name in self._packages:
            package = importlib.import_module(name)
            for module in pkgutil.walk_packages(getattr(package, "__path__", ()), name + "."):
                importlib.import_module(module.name)
        self._packages = ()


class _Hooks(Registry):
    """Hooks registered here or, as mmengine's tutorials do, in mmengine's own registry."""

    def _load(self) -> None:
        opencv.import_module("mmengine.hooks")
        for name, kind in mmengine.registry.HOOKS.module_dict.items():
            self._module_dict.setdefault(name, kind)


ENCODINGS = Registry("encoding", "ndformer.encodings", typed=True)
MODALITIES = Registry("modality", "ndformer.modalities")
DATASETS = Registry("dataset", "ndformer.modalities", "ndformer.framework.data")
TRANSFORMS = Registry("transform", "ndformer.modalities", "ndformer.framework.data")
DESCRIBERS = Registry("describer", "ndformer.modalities")
MIXERS = Registry("mixer", "ndformer.modalities")
STAND_INS = Registry("stand-in", "ndformer.modalities")
MODELS = Registry("model", "ndformer.framework.model")
BACKBONES = Registry("backbone", "ndformer.framework.backbones", "ndformer.modalities")
NECKS = Registry("neck", "ndformer.framework.necks", "ndformer.modalities")
HEADS = Registry("head", "ndformer.framework.heads", "ndformer.modalities")
ANSWERS = Registry("answer", "ndformer.framework.answers", "ndformer.modalities")
METRICS = Registry("metric", "ndformer.framework.evaluation", "ndformer.modalities")
OPTIMIZERS = Registry("optimizer", "ndformer.framework.engine.training.optim")
SCHEDULES = Registry("schedule", "ndformer.framework.engine.training.schedules")
IMPORTERS = Registry("importer", "ndformer.integrations.importers")
HOOKS = _Hooks("hook")
