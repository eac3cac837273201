"""What a config may say: the table of its keys, and the check that everything it says is read by something.

Whatever stands in a config ends as arguments: of the classes below, or of the class that a `type` names. So one rule
checks it all: the arguments of a call must fit its signature. `PLACES` says which registry knows the names where.
"""

import difflib
import re
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from ndformer.framework.data.dataset import rooted
from ndformer.framework.engine.config.data_root import nobody_follows
from ndformer.framework.engine.config.optimizers import OPTIMIZER_HINTS
from ndformer.framework.engine.config.shared import OWN
from ndformer.framework.engine.config.splits import misread
from ndformer.framework.errors import UnknownNameError
from ndformer.framework.registry import (
    BACKBONES,
    DATASETS,
    ENCODINGS,
    HEADS,
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
from ndformer.framework.registry.ranges import (
    Count,
    FewOrNone,
    Inside,
    NonNegative,
    Positive,
    Seconds,
    Seed,
    SomeShare,
    Text,
)
from ndformer.framework.registry.signature import arguments, fits, in_words, union

Component = dict[str, Any]  # dict(type='NAME', its arguments)


def key(says: str, default: Any = MISSING) -> Any:
    return field(default=default, metadata=dict(says=says))


@dataclass(kw_only=True)
class Loading:
    batch_size: Count = key("samples per batch")
    dataset: Component = key("a dataset, its split and transforms")
    num_workers: FewOrNone = key("processes that read samples; 0: the training process does", 0)
    loops: Count = key("passes over the training set that make an epoch", 1)
    skip_bad: bool = key("leave out samples that cannot be read, and list them at the end", False)
    random_labels: bool = key("a control: samples get each other's labels, so that there is nothing to learn", False)
    timeout: Seconds = key("seconds without a batch from the workers after which a run ends", 600.0)
    any_split: bool = key("another split than that of the loader's name is wanted, or one that others overlap", False)


@dataclass(kw_only=True)
class Groups:
    layer_decay: SomeShare | None = key("learning rates shrink by this factor from block to block, downwards", None)
    decay_encoding: bool = key("layer_decay acts on the encoding too; --weights sets False where it begins anew", True)
    no_decay: bool = key("no weight decay for biases, norms, tokens and what an encoding spares", False)
    lr_factors: dict[str, NonNegative] | None = key("learning rates times a factor, where a name has this in it", None)


@dataclass(kw_only=True)
class Training:
    max_epochs: Count = key("passes over the training set")
    accumulate: Count = key("batches per optimizer step", 1)
    freeze_epochs: FewOrNone = key("first epochs in which only the head and the encoding learn", 0)
    clip_grad: Positive | None = key("the largest norm of the gradient", None)
    amp: Literal["bf16", "fp16"] | None = key("16-bit autocast", None)
    compile: bool = key("torch.compile the backbone", False)
    checkpoint_every: Count | Text | None = key(
        "N optimizer steps or 'M minutes' between checkpoints in an epoch", None
    )
    detect_anomaly: bool = key("torch's anomaly detection: slow, names the operation that makes the first NaN", False)


@dataclass(kw_only=True)
class Average:
    decay: Inside = key("share of the average that stays at every step")


@dataclass(kw_only=True)
class Patience:
    patience: Count = key("epochs without a better validation before training ends")


@dataclass(kw_only=True)
class Imports:
    imports: list[str] | str = key("modules, by their import names")
    allow_failed_imports: bool = key("go on without those that fail", False)


@dataclass(kw_only=True)
class Keys:
    """The keys of a config; there are no others."""

    model: Component = key("modalities -> backbone -> head, and how training batches are mixed")
    train_dataloader: Loading = key("what is trained on")
    val_dataloader: Loading = key("what chooses the best checkpoint")
    test_dataloader: Loading = key("what the best checkpoint is tested on, once, at the end")
    dataset: Component | None = key("options for the datasets of all three loaders at once: their type, a fold", None)
    data_root: Text | None = key("folder of the data, for every dataset that does not name its own", None)
    weights: Text | None = key(
        "weights to begin with, FILE or SOURCE:FILE; another head or encoding than theirs begins anew", None
    )
    optimizer: Component = key("any torch.optim class; lr is the peak of the schedule")
    param_groups: Groups | None = key("parameters with a learning rate or weight decay of their own", None)
    schedule: Component = key("the learning rate over training, per optimizer step")
    train_cfg: Training = key("how long and how it is trained")
    ema: Average | None = key("evaluate an average of the weights", None)
    early_stopping: Patience | None = key("end when validation no longer improves", None)
    metrics: list[Component] = key("what is measured; the first one's main value chooses the best checkpoint")
    seed: Seed = key("decides every random number", 0)
    visualizer: Literal["tensorboard", "wandb"] | None = key("also writes curves for 'tensorboard' or 'wandb'", None)
    work_dir: Text | None = key("folder of the run; None: work_dirs/CONFIG[_ENCODING]", None)
    custom_imports: Imports | None = key("your own modules, which register what the config names", None)
    default_scope: str = key("mmengine's scope of registry names", "ndformer")
    versions: dict[str, dict[str, Any]] | None = key("other versions of the config, by name", None)
    preset: str | None = key("the one of `versions` that is merged over the config", None)
    sample: dict[str, Any] | None = key("merged over the config by --sample: small model, short schedule", None)
    sample_data: str | list[str] | None = key(
        "the stand-in that --sample generates when its folder is missing; one for each part of a mixture", None
    )


class Place(NamedTuple):
    """What stands under an argument of some name, be it of the config or of a component."""

    registry: Registry
    given: tuple[str, ...] = ()  # arguments that the place adds
    needed: tuple[str, ...] = ()  # arguments that it wants, whatever the class says
    rooted: bool = False  # it adds `data_root`, from further out, where the config does not
    named: bool = False  # or several by names of the user's: dict(image=dict(type=...))
    filled: bool = False  # a list has something in it
    hints: Mapping[str, Any] = MappingProxyType({})  # what arguments take, where their class does not say it
    from_data: tuple[str, ...] = ()  # arguments that may be missing or None: training takes them from the data


PLACES = dict(
    model=Place(MODELS),
    modalities=Place(MODALITIES, ("dim",), named=True),
    backbone=Place(BACKBONES),
    encoding=Place(ENCODINGS, ("dim", "heads", "position_dims", "depth"), filled=True),
    head=Place(HEADS, ("dim",), named=True, from_data=("classes",)),
    neck=Place(NECKS, ("dim",)),
    mix=Place(MIXERS),
    dataset=Place(DATASETS, ("seed", "known"), rooted=True),
    parts=Place(DATASETS, ("seed", "known"), rooted=True, named=True),
    transforms=Place(TRANSFORMS),
    chains=Place(TRANSFORMS, named=True),
    optimizer=Place(OPTIMIZERS, ("params",), ("lr",), hints=OPTIMIZER_HINTS),
    schedule=Place(SCHEDULES),
    metrics=Place(METRICS, filled=True),
    metric=Place(METRICS),
)


def completed(given: dict[str, Any], kind: type = Keys) -> dict[str, Any]:
    """The same with the table's defaults, in the table's order; what the table does not know comes last."""
    found = {}
    for f in fields(kind):
        if f.name in given or f.default is not MISSING:
            value = given.get(f.name, f.default)
            settings = _settings(arguments(kind)[0][f.name].hint)
            found[f.name] = completed(value, settings) if settings and isinstance(value, dict) else value
    return found | {name: value for name, value in given.items() if name not in found}


def explained(kind: type = Keys, at: str = "") -> list[tuple[str, str, str]]:
    """(key, default, what it says) of all keys, dotted where one stands in another."""
    rows = []
    for f in fields(kind):
        rows.append((at + f.name, "" if f.default is MISSING else repr(f.default), f.metadata["says"]))
        settings = _settings(arguments(kind)[0][f.name].hint)
        rows += explained(settings, f"{at}{f.name}.") if settings else []
    return rows


def problems(cfg: dict[str, Any]) -> list[str]:
    """A sentence for each thing in a config that cannot be meant; each begins with the place."""
    checker = _Checker(cfg["data_root"])
    checker.call(cfg, Keys, "")
    return checker.sentences() + nobody_follows(cfg) or misread(cfg)


@dataclass
class _Unread:
    at: str
    name: str
    siblings: list[str]
    kind: Any
    place: Place | None
    given: dict[str, Any]  # it, and what stands beside it


class _Checker:
    def __init__(self, data_root: Any) -> None:
        self.data_root = data_root  # what further out says
        self.found: list[str] = []
        self.unread: list[_Unread] = []
        self.missing: list[tuple[str, str]] = []
        self.readable: list[str] = []  # every place that something in this config would read

    def call(self, given: dict[str, Any], kind: Any, at: str, place: Place | None = None) -> None:
        """`given` as the arguments of `kind`."""
        known, more = arguments(kind)
        from_place = place.given if place else ()
        free = [name for name in known if name not in from_place]
        self.readable += [f"{at}{name}" for name in free]
        for name, value in given.items():
            if name in known and name in from_place:
                self.found.append(f"{at}{name}: {kind.__name__} is given it by its place, leave it out")
            elif name in known and not (place and name in place.from_data and value is None):
                hint = place.hints.get(name, known[name].hint) if place else known[name].hint
                self.value(value, hint, name, f"{at}{name}")
            elif name not in known and not more:
                self.unread.append(_Unread(at, name, [*free, "type"] if place else free, kind, place, given))
        for name in free:
            if place and name in place.from_data:
                continue
            if name not in given and (known[name].required or (place and name in place.needed)):
                self.missing.append((f"{at}{name}", "every config" if kind is Keys else kind.__name__))

    def value(self, value: Any, hint: Any, name: str, at: str) -> None:
        place, settings = PLACES.get(name), _settings(hint)
        if place is not None and (value == "" or isinstance(value, str) and not fits(value, hint)):
            self.component(value, at, place)  # a mere name
        elif place is not None and isinstance(value, (list, tuple)) and fits([], hint):
            if place.filled and not value:
                self.found.append(f"{at}: a list of one or more, got an empty one")
            for i, one in enumerate(value):
                self.component(one, f"{at}.{i}", place)
        elif not fits(value, hint):
            self.found.append(f"{at}: takes {in_words(hint)}, got {_short(value)}")
        elif settings is not None and isinstance(value, dict):
            self.call(value, settings, f"{at}.")
        elif place is not None and place.named and isinstance(value, dict) and _several(value):
            for key, one in value.items():
                for i, single in enumerate(one if isinstance(one, list) else [one]):
                    self.component(single, f"{at}.{key}" + f".{i}" * isinstance(one, list), place)
        elif place is not None and isinstance(value, dict):
            self.component(value, at, place)

    def component(self, given: Any, at: str, place: Place) -> None:
        if isinstance(given, dict) and "type" not in given:
            for key in difflib.get_close_matches("type", [k for k in given if isinstance(k, str)], 1, 0.5):
                self.found.append(f"{at}.{key}: nothing reads it, did you mean type?")
                return
        if not isinstance(given, dict) or not isinstance(given.get("type"), str):
            what = place.registry.name
            article = "an" if what[0] in "aeio" else "a"
            self.found.append(f"{at}: {article} {what} is written dict(type='NAME', ...), got {_short(given)}")
            return
        try:
            kind = place.registry.get(given["type"])
        except UnknownNameError as error:
            self.found.append(f"{at}.type: {error}")
            return
        given, outer = {name: value for name, value in given.items() if name != "type"}, self.data_root
        if place.rooted:
            given = rooted(given, outer)
            self.data_root = given.get("data_root")
        self.call(given, kind, f"{at}.", place)
        self.data_root = outer

    def sentences(self) -> list[str]:
        meant = set()
        sentences = []
        for unread in self.unread:
            others = _others(unread)
            near = [] if others else self.nearest(unread)
            meant.update(n if "." in n else unread.at + n for n in near)
            sentence = f"{unread.at}{unread.name}: nothing reads it"
            if near:
                sentence += f", did you mean {' or '.join(near)}?"
            elif others:
                own = unread.kind.__name__
                sentence += f": {others[0]} would, {own} does not; dict(_delete_=True, type='{own}', ...) drops what a "
                sentence += "base config gives to another type"
            elif unread.kind is Keys:
                sentence += "; names of your own begin with an underscore"
            else:
                free = ", ".join(n for n in unread.siblings if n != "type") or "nothing"
                sentence += f"; {unread.kind.__name__} reads {free}"
            sentences.append(sentence)
        missing = [f"{at} is missing: {who} needs it" for at, who in self.missing if at not in meant]
        return sentences + self.found + missing

    def nearest(self, unread: _Unread) -> list[str]:
        """The sibling with the nearest name, or the place elsewhere where this very name is read, or one like it."""
        folded = {name.lower(): name for name in unread.siblings}
        near = [folded[n] for n in difflib.get_close_matches(str(unread.name).lower(), folded, 1, 0.5)]
        inside = [at for at in _leaves(unread.given[unread.name]) if at]
        meant = [name for name in near if name not in unread.given]
        read = any(f"{unread.at}{name}.{at}" in self.readable for name in near for at in inside)
        if inside and not meant and not read:
            found = [self._elsewhere(at, f"{unread.at}{unread.name}.{at}", 1.0) for at in inside]
            near = next((places for places in found if places), near)
        near += self._elsewhere(str(unread.name), f"{unread.at}{unread.name}", 1.0)
        return near or self._elsewhere(str(unread.name), f"{unread.at}{unread.name}", 0.75)

    def _elsewhere(self, name: str, at: str, cutoff: float) -> list[str]:
        """The place most like this one where the last word of a name is read; `dataset` is short for three of them."""
        ends = {place: place.rpartition(".")[2] for place in self.readable}
        if "." not in at:  # as good as any of the three
            ends = {place: end for place, end in ends.items() if not place.startswith(("val_", "test_"))}
        close = difflib.get_close_matches(name.rpartition(".")[2], set(ends.values()), 1, cutoff)
        found = difflib.get_close_matches(at, [place for place, end in ends.items() if end in close], 1, 0.0)
        return [
            re.sub(rf"^(train|val|test)_dataloader\.dataset\.(?!{'|'.join(OWN)})", "dataset.", one) for one in found
        ]


def _leaves(value: Any, at: str = "") -> Iterator[str]:
    """The dotted places inside of a value that are no dicts."""
    if not isinstance(value, dict):
        yield at
        return
    for key, one in value.items():
        yield from _leaves(one, f"{at}.{key}" if at else str(key))


def _several(value: dict[str, Any]) -> bool:
    """dict(image=dict(...), points=dict(...)), not dict(type=...)."""
    return "type" not in value and any(isinstance(one, (dict, list)) for one in value.values())


def _others(unread: _Unread) -> list[str]:
    """Other classes of this registry that read the name: what is left of a base config with another type."""
    if unread.place is None:
        return []
    kinds = unread.place.registry.module_dict
    return sorted(n for n, kind in kinds.items() if kind is not unread.kind and unread.name in arguments(kind)[0])


def _settings(hint: Any) -> type | None:
    """The dataclass in `Average` or `Average | None`."""
    return next((one for one in union(hint) if isinstance(one, type) and is_dataclass(one)), None)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
