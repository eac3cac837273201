"""Names for things that configurations build: mmengine registries that find their modules, and help when they miss."""

import importlib
import pkgutil
from typing import Any

from ndformer.framework.errors import UnknownNameError, nearest
from ndformer.framework.registry.signature import arguments
from ndformer.framework.system import host_state

with host_state.importing():
    import mmengine.registry


class Registry(mmengine.registry.Registry):
    """An mmengine registry of one kind of thing, found by name.

    `places` are where things of this kind live, packages and modules: all modules there are imported at the first
    look-up, so a new file needs no list to be entered in.
    """

    def __init__(self, name: str, *places: str) -> None:
        super().__init__(name, scope="ndformer")
        self._places = places
        self.synonyms: dict[str, str] = {}  # names in papers and other libraries, in lower case, and ours

    def all(self) -> dict[str, Any]:
        """Every name, and what it stands for."""
        self._load()
        return self.module_dict

    def get(self, key: str) -> Any:
        """What is registered by that name. mmengine's own look-up would import whatever module a dotted name says."""
        self._load()
        found = self.module_dict.get(key.removeprefix(f"{self.scope}."))
        if found is None:
            names = sorted(self.module_dict)
            other = self.synonyms.get(key.lower())
            meant = nearest(key, names) if other is None else f", did you mean '{other}'?"
            raise UnknownNameError(f"no {self.name} is called '{key}'{meant} Known: {', '.join(names)}")
        return found

    def create(self, cfg: dict[str, Any], **context: Any) -> Any:
        """Build `cfg` with arguments that its place in the model gives; an option nothing reads is an error."""
        if not isinstance(cfg, dict) or "type" not in cfg:
            raise TypeError(f"a {self.name} is given as dict(type='NAME', ...), got {cfg!r}")
        kind = self.get(cfg["type"]) if isinstance(cfg["type"], str) else cfg["type"]
        options = {key: value for key, value in cfg.items() if key != "type"}
        known, more = arguments(kind)
        for key in options:
            if key in context or not (key in known or more):
                free = [name for name in known if name not in context]
                raise UnknownNameError(
                    f"{kind.__name__} has no option '{key}'{nearest(key, free)} It has: {', '.join(free)}"
                )
        return kind(**context, **options)

    def _load(self) -> None:
        for name in self._places:
            place = importlib.import_module(name)
            for module in pkgutil.walk_packages(getattr(place, "__path__", ()), name + "."):
                importlib.import_module(module.name)
        self._places = ()


ENCODINGS = Registry("encoding", "ndformer.encodings")
MODALITIES = Registry("modality", "ndformer.modalities")
DATASETS = Registry("dataset", "ndformer.modalities", "ndformer.framework.data")
TRANSFORMS = Registry("transform", "ndformer.modalities", "ndformer.framework.data")
DESCRIBERS = Registry("describer", "ndformer.modalities")
MIXERS = Registry("mixer", "ndformer.modalities")
STAND_INS = Registry("stand-in", "ndformer.modalities")
MODELS = Registry("model", "ndformer.framework.model")
BACKBONES = Registry("backbone", "ndformer.framework.backbones")
NECKS = Registry("neck", "ndformer.framework.necks")
HEADS = Registry("head", "ndformer.framework.heads")
ANSWERS = Registry("answer", "ndformer.framework.answers", "ndformer.modalities")
METRICS = Registry("metric", "ndformer.framework.evaluation", "ndformer.modalities")
OPTIMIZERS = Registry("optimizer", "ndformer.framework.engine.training.optim")
SCHEDULES = Registry("schedule", "ndformer.framework.engine.training.schedules")
