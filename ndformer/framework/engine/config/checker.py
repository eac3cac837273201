"""The check of a config: every key is read, every value has the right type, every required key is there.

All values of a config are arguments: of the dataclasses in schema.py, or of the class that a `type` names. So one rule
checks them all: arguments must fit the signature. `PLACES` maps argument names to the registry of their `type`.
"""

import difflib
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Any, NamedTuple

from ndformer.framework.data.dataset import rooted
from ndformer.framework.engine.config.custom_hooks import hook_problems
from ndformer.framework.engine.config.data_root import unused_data_root
from ndformer.framework.engine.config.merging import LOADER_KEYS
from ndformer.framework.engine.config.schema import Keys, Sharding, settings_class
from ndformer.framework.engine.config.splits import split_problems
from ndformer.framework.errors import UnknownNameError, alternatives
from ndformer.framework.registry import (
    BACKBONES,
    DATASETS,
    ENCODINGS,
    HEADS,
    HOOKS,
    METRICS,
    MIXERS,
    MODALITIES,
    MODELS,
    NECKS,
    OPTIMIZERS,
    SCHEDULES,
    TRANSFORMS,
    Registry,
)
from ndformer.framework.registry.ranges import Ascending, Finite, Inside, NonNegative, Positive, Range, Rate, Share
from ndformer.framework.registry.renamed import current_options
from ndformer.framework.registry.signature import arguments, fits, in_words


class Place(NamedTuple):
    """An argument whose value is a component, in a config or inside another component."""

    registry: Registry
    provided: tuple[str, ...] = ()  # arguments that ndformer adds
    required: tuple[str, ...] = ()  # arguments that are required even if the class has a default
    rooted: bool = False  # inherits `data_root`
    named: bool = False  # may be several components with names: dict(image=dict(type=...))
    nonempty: bool = False  # a list needs at least one component
    hints: Mapping[str, Any] = MappingProxyType({})  # types of arguments whose class has no precise ones
    extra: tuple[str, ...] = ()  # keys that are not arguments of the class
    from_data: tuple[str, ...] = ()  # arguments that may be missing or None: training measures them on the data
    # yields (key, problem) for a class and its options
    problems: Callable[[Any, dict[str, Any]], Iterable[tuple[str, str]]] = lambda kind, options: ()


# ranges of the arguments of torch's optimizers, whose signatures only have `float`
OPTIMIZER_HINTS: dict[str, Any] = dict(
    lr=Positive,
    weight_decay=NonNegative,
    betas=tuple[Rate, Rate],
    eps=NonNegative | tuple[Positive | None, Positive],  # Adafactor has two
    momentum=Rate,
    dampening=Share,
    alpha=Share,
    rho=Share,
    lambd=NonNegative,
    t0=NonNegative,
    lr_decay=NonNegative,
    initial_accumulator_value=NonNegative,
    momentum_decay=NonNegative,
    etas=tuple[Inside, Annotated[float, Range(1, 100, above=True)]],
    step_sizes=Annotated[tuple[Positive, Positive], Ascending()],
    beta2_decay=Annotated[float, Range(-10, 0)],
    d=Positive,
    ns_coefficients=tuple[Finite, Finite, Finite],
    ns_steps=Annotated[int, Range(1, 99)],
)
PLACES = dict(
    model=Place(MODELS),
    modalities=Place(MODALITIES, ("dim",), named=True),
    backbone=Place(BACKBONES),
    encoding=Place(ENCODINGS, ("dim", "heads", "position_dims", "depth"), nonempty=True),
    head=Place(HEADS, ("dim",), named=True, from_data=("classes",)),
    neck=Place(NECKS, ("dim",)),
    mix=Place(MIXERS),
    dataset=Place(DATASETS, ("seed", "model_classes"), rooted=True),
    parts=Place(DATASETS, ("seed", "model_classes"), rooted=True, named=True),
    transforms=Place(TRANSFORMS),
    chains=Place(TRANSFORMS, named=True),
    optimizer=Place(OPTIMIZERS, ("params",), ("lr",), hints=OPTIMIZER_HINTS),
    schedule=Place(SCHEDULES),
    metrics=Place(METRICS, nonempty=True),
    metric=Place(METRICS),
    custom_hooks=Place(HOOKS, extra=("priority",), problems=hook_problems),
)


def problems(cfg: dict[str, Any]) -> list[str]:
    """Return the problems of a config as sentences that begin with the dotted key."""
    checker = _Checker(cfg["data_root"])
    checker.call(cfg, Keys, "")
    return checker.sentences() + unused_data_root(cfg) or [*_parallel_problems(cfg), *split_problems(cfg)]


def with_current_options(value: Any, place: Place | None = None, base: Any = None) -> Any:
    """Return a config, or a part of it that is a component of `place`, whose types and options have their new names.

    `base` is what `value` will be merged into, which may have its type: the config for `sample` and `versions`.
    """
    if isinstance(value, (list, tuple)):
        return type(value)(with_current_options(item, place) for item in value)
    if not isinstance(value, dict):
        return value
    base = base if isinstance(base, dict) else {}
    name = value.get("type", base.get("type"))
    if place is not None and isinstance(name, str):
        name = place.registry.current_name(name)
        value = value | dict(type=name) if "type" in value else value
        if name in place.registry.all():
            value, place = current_options(place.registry.all()[name], value), None
    named = place if place is not None and place.named and "type" not in value else None
    config, versions = base | value, value.get("versions")
    bases = base | dict(sample=config)
    if isinstance(versions, dict):
        bases["versions"] = dict.fromkeys(versions, config)
    return {key: with_current_options(inner, named or PLACES.get(key), bases.get(key)) for key, inner in value.items()}


def with_silent_options(cfg: dict[str, Any]) -> dict[str, Any]:
    """Return the config of an earlier run with new names, without warnings: nobody has to change it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        current: dict[str, Any] = with_current_options(cfg)
    return current


def _parallel_problems(cfg: dict[str, Any]) -> list[str]:
    """Return a problem for options of train_cfg.parallel that its type does not use, or that no processes fit."""
    parallel = cfg["train_cfg"].get("parallel")
    if not isinstance(parallel, dict):
        return []
    unused = [name for name, value in parallel.items() if name != "type" and value != getattr(Sharding, name)]
    if parallel["type"] == "ddp" and unused:
        return [f"train_cfg.parallel: {', '.join(unused)}: only for type='fsdp', got type='ddp'"]
    if parallel.get("shard") == 0:
        return ["train_cfg.parallel.shard: expected -1 (all processes) or at least 1, got 0"]
    return []


@dataclass
class _Unread:
    """A key that nothing reads: `prefix` and `name`, and where it was found."""

    prefix: str
    name: str
    siblings: list[str]  # names that would be read instead
    kind: Any
    place: Place | None
    values: dict[str, Any]  # all keys of its dict


class _Checker:
    def __init__(self, data_root: Any) -> None:
        self.data_root = data_root  # of the config or the surrounding component
        self.messages: list[str] = []
        self.unread: list[_Unread] = []
        self.missing: list[tuple[str, str]] = []
        self.readable: list[str] = []  # all dotted keys that would be read

    def call(self, values: dict[str, Any], kind: Any, prefix: str, place: Place | None = None) -> None:
        """Check `values` as the arguments of `kind`."""
        parameters, accepts_any = arguments(kind)
        provided = place.provided if place else ()
        free = [name for name in parameters if name not in provided]
        self.readable += [f"{prefix}{name}" for name in free]
        for name, value in values.items():
            if name in parameters and name in provided:
                self.messages.append(f"{prefix}{name}: ndformer sets it for {kind.__name__}, leave it out")
            elif name in parameters and not (place and name in place.from_data and value is None):
                hint = place.hints.get(name, parameters[name].hint) if place else parameters[name].hint
                self.value(value, hint, name, f"{prefix}{name}")
            elif name not in parameters and not accepts_any:
                self.unread.append(_Unread(prefix, name, [*free, "type"] if place else free, kind, place, values))
        for name in free:
            if place and name in place.from_data:
                continue
            if name not in values and (parameters[name].required or (place and name in place.required)):
                self.missing.append((f"{prefix}{name}", "every config" if kind is Keys else kind.__name__))

    def value(self, value: Any, hint: Any, name: str, path: str) -> None:
        place, settings = PLACES.get(name), settings_class(hint)
        if place is not None and (value == "" or isinstance(value, str) and not fits(value, hint)):
            self.component(value, path, place)  # a name without dict(type=...)
        elif place is not None and isinstance(value, (list, tuple)) and fits([], hint):
            if place.nonempty and not value:
                self.messages.append(f"{path}: expected a list of one or more, got an empty one")
            for i, item in enumerate(value):
                self.component(item, f"{path}.{i}", place)
        elif not fits(value, hint):
            self.messages.append(f"{path}: takes {in_words(hint)}, got {_short(value)}")
        elif settings is not None and isinstance(value, dict):
            self.call(value, settings, f"{path}.")
        elif place is not None and place.named and isinstance(value, dict) and _several(value):
            for key, parts in value.items():
                for i, part in enumerate(parts if isinstance(parts, list) else [parts]):
                    self.component(part, f"{path}.{key}" + f".{i}" * isinstance(parts, list), place)
        elif place is not None and isinstance(value, dict):
            self.component(value, path, place)

    def component(self, value: Any, path: str, place: Place) -> None:
        if isinstance(value, dict) and "type" not in value:
            for key in difflib.get_close_matches("type", [k for k in value if isinstance(k, str)], 1, 0.5):
                self.messages.append(f"{path}.{key}: nothing reads it, did you mean type?")
                return
        if not isinstance(value, dict) or not isinstance(value.get("type"), str):
            noun = place.registry.name
            article = "an" if noun[0] in "aeio" else "a"
            known = _kinds_with(place.registry, value)
            of_these = f"; with these options NAME is {alternatives(known)}" if known else ""
            self.messages.append(
                f"{path}: {article} {noun} is written dict(type='NAME', ...), got {_short(value)}{of_these}"
            )
            return
        try:
            kind = place.registry.get(value["type"])
        except UnknownNameError as error:
            self.messages.append(f"{path}.type: {error}")
            return
        self.messages += [f"{path}.{key}: {problem}" for key, problem in place.problems(kind, value)]
        not_arguments, outer = ("type", *place.extra), self.data_root
        values = {name: inner for name, inner in value.items() if name not in not_arguments}
        if place.rooted:
            values = rooted(values, outer)
            self.data_root = values.get("data_root")
        self.call(values, kind, f"{path}.", place)
        self.data_root = outer

    def sentences(self) -> list[str]:
        meant = set()
        sentences = []
        for unread in self.unread:
            other_types = _other_types(unread)
            close = [] if other_types else self.nearest(unread)
            meant.update(n if "." in n else unread.prefix + n for n in close)
            sentence = f"{unread.prefix}{unread.name}: nothing reads it"
            if close:
                sentence += f", did you mean {alternatives(close)}?"
            elif other_types:
                kind = unread.kind.__name__
                sentence += (
                    f": it is an argument of {other_types[0]}, not of {kind}; dict(_delete_=True, type='{kind}', ...) "
                )
                sentence += "removes the arguments that a base config sets for another type"
            elif unread.kind is Keys:
                sentence += "; names of your own begin with an underscore"
            else:
                free = ", ".join(n for n in unread.siblings if n != "type") or "nothing"
                sentence += f"; {unread.kind.__name__} reads {free}"
            sentences.append(sentence)
        missing = [f"{path} is missing: {who} needs it" for path, who in self.missing if path not in meant]
        return sentences + self.messages + missing

    def nearest(self, unread: _Unread) -> list[str]:
        """Return similar names: of a sibling, or of keys elsewhere with the same or a similar last word."""
        folded = {name.lower(): name for name in unread.siblings}
        close = [folded[n] for n in difflib.get_close_matches(str(unread.name).lower(), folded, 1, 0.5)]
        inside = [path for path in _leaves(unread.values[unread.name]) if path]
        unused = [name for name in close if name not in unread.values]
        is_read = any(f"{unread.prefix}{name}.{path}" in self.readable for name in close for path in inside)
        if inside and not unused and not is_read:
            elsewhere = [self._elsewhere(path, f"{unread.prefix}{unread.name}.{path}", 1.0) for path in inside]
            close = next((paths for paths in elsewhere if paths), close)
        close += self._elsewhere(str(unread.name), f"{unread.prefix}{unread.name}", 1.0)
        return close or self._elsewhere(str(unread.name), f"{unread.prefix}{unread.name}", 0.75)

    def _elsewhere(self, name: str, path: str, cutoff: float) -> list[str]:
        """Return the dotted key most similar to `path` among those that end in the last word of `name`."""
        ends = {place: place.rpartition(".")[2] for place in self.readable}
        if "." not in path:  # one loader is enough
            ends = {place: end for place, end in ends.items() if not place.startswith(("val_", "test_"))}
        close = difflib.get_close_matches(name.rpartition(".")[2], set(ends.values()), 1, cutoff)
        matches = difflib.get_close_matches(path, [place for place, end in ends.items() if end in close], 1, 0.0)
        shared = rf"^(train|val|test)_dataloader\.dataset\.(?!{'|'.join(LOADER_KEYS)})"  # `dataset` sets all three
        return [re.sub(shared, "dataset.", place) for place in matches]


def _leaves(value: Any, path: str = "") -> Iterator[str]:
    """Yield the dotted keys inside a value whose values are not dicts."""
    if not isinstance(value, dict):
        yield path
        return
    for key, inner in value.items():
        yield from _leaves(inner, f"{path}.{key}" if path else str(key))


def _several(value: dict[str, Any]) -> bool:
    """Whether a dict has several components, as dict(image=dict(...)), and is not one, as dict(type=...)."""
    return "type" not in value and any(isinstance(inner, (dict, list)) for inner in value.values())


def _kinds_with(registry: Registry, options: Any) -> list[str]:
    """Return the classes of a registry that have all of these options, if there are any and none is a type."""
    if not isinstance(options, dict) or not options or "type" in options:
        return []
    return sorted(name for name, kind in registry.all().items() if options.keys() <= arguments(kind)[0].keys())


def _other_types(unread: _Unread) -> list[str]:
    """Return other classes of the registry with this argument, which a base config may have set for them."""
    if unread.place is None:
        return []
    kinds = unread.place.registry.module_dict
    return sorted(n for n, kind in kinds.items() if kind is not unread.kind and unread.name in arguments(kind)[0])


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
