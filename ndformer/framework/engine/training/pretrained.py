"""Pretrained weights: the model that a file is of, and how much of the file a new model takes.

weights = read("timm:vit_small_patch16_224.safetensors")     # or a file alone: its importer is found
cfg = adapted(cfg, weights)                                  # width, depth, heads, patches, norms
for line in load_into(model, weights, cfg["model"]["backbone"]["encoding"]):
    print(line)                                              # what was taken, what is new, what is left out
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mmengine.config import Config
from torch import Tensor, nn

from ndformer.framework.encoding import LayerEncoding, PositionEncoding
from ndformer.framework.engine.config import saved
from ndformer.framework.engine.config.references import Reference, parse_reference
from ndformer.framework.engine.config.text import unspelled
from ndformer.framework.engine.training import checkpoint
from ndformer.framework.errors import DataError
from ndformer.framework.foreign.weights import load_tensors
from ndformer.framework.importers import SOURCES
from ndformer.framework.importers.state_dict import Imported

OWN = "ndformer"  # the source of our own checkpoints
OF_TRAINING = ("drop_path", "checkpointing", "backend")  # arguments of backbones that no weight depends on
OF_PLACES = ("class_at", "start", "plane")  # arguments of adapters that belong to the encoding
OF_DATA = ("mean", "std")  # and to the data
NAMES = 6  # how many a line of the summary has

Parts = dict[str, Any] | Sequence[dict[str, Any]] | None  # an encoding as configs have it


@dataclass(frozen=True)
class Pretrained:
    """The weights of a file by the names of TokenModel, and the architecture that they are of."""

    reference: Reference
    source: str
    weights: dict[str, Tensor]
    architecture: dict[str, Any] | None  # modalities, backbone, head; None: an old checkpoint that does not say it
    unused: Sequence[str] = ()  # entries of the file that no model of ours has
    assumed: str = ""

    @property
    def encoding(self) -> Parts:
        return (self.architecture or {}).get("backbone", {}).get("encoding")


def read(text: str) -> Pretrained:
    """Read a checkpoint of ours or a file of any importer: FILE, or SOURCE:FILE where the importer is named."""
    reference = parse_reference(text)
    if not reference.path.is_file():
        checkpoint.load(reference.path)  # raises, and names the files beside it
    if reference.source is not None:
        return _imported(reference, _convert(reference))
    try:
        content = checkpoint.load(reference.path)
    except DataError:  # of somebody else: the importers' reader has the last word
        content = {}
    if {"format", "config", "classes"} & content.keys():
        return Pretrained(reference, OWN, content["model"], _architecture(content, reference.path))
    return _recognized(reference)


def _architecture(content: dict[str, Any], path: Path) -> dict[str, Any] | None:
    text, beside = content.get("architecture", content.get("config")), path.with_name(saved.DATA)
    if text is None and not beside.is_file():
        return None
    try:
        found = saved.read(beside) if text is None else unspelled(text)
        found = found if "architecture" in content else found["model"]
        whole = all(isinstance(found[key], dict) for key in ("modalities", "backbone"))
    except (ValueError, SyntaxError, RecursionError, MemoryError, LookupError, TypeError):
        whole, found = False, {}
    if not whole:
        raise DataError(f"the config of {path} is damaged: give another checkpoint of that run")
    return found


def _convert(reference: Reference) -> Imported:
    name = str(reference.source)
    source = SOURCES[name]
    options = dict(head_dim=source.HEAD_DIM) | reference.options
    try:
        return source.convert(load_tensors(reference.path, source.INSIDE), **options)
    except DataError as error:
        remedy = error.option.replace("--head-dim N", f"--weights '{name}(head_dim=N):{reference.path}'")
        raise DataError(str(error), remedy) from None


def _imported(reference: Reference, imported: Imported) -> Pretrained:
    weights = {f"{at}.{name}": value for at, part in imported.parts.items() for name, value in part.weights.items()}
    source, architecture = str(reference.source), architecture_of(imported)
    return Pretrained(reference, source, weights, architecture, imported.left, imported.assumed)


def architecture_of(imported: Imported) -> dict[str, Any]:
    """Return the configs of its parts as a model has them: modalities, backbone and head."""
    found: dict[str, Any] = dict(modalities={})
    for at, part in imported.parts.items():
        kind, _, modality = at.partition(".")
        if modality:
            found[kind][modality] = part.config
        else:
            found[kind] = part.config
    return found


def _recognized(reference: Reference) -> Pretrained:
    """The file as the one importer that takes it reads it."""
    found: list[Pretrained] = []
    why = ""
    for name in SOURCES:
        named = Reference(reference.path, name)
        try:
            one = _imported(named, _convert(named))
        except DataError as error:
            if name == "timm" or (error.option and not why):
                why = f"{error}; {error.option}".rstrip("; ")
            continue
        if all(one.architecture != other.architecture for other in found):
            found.append(one)
    if not found:
        raise DataError(
            f"{reference.path}: expected a checkpoint of ndformer or weights of {', '.join(SOURCES)}, got neither "
            f"(timm: {why})",
            f"--weights SOURCE:{reference.path} says why the importer of your choice does not take it",
        )
    if len(found) > 1:
        names = " and of ".join(one.source for one in found)
        raise DataError(
            f"{reference.path} has the names and shapes of {names}, whose positions differ: name the importer",
            f"--weights {found[0].source}:{reference.path}",
        )
    return found[0]


def adapted(cfg: dict[str, Any], weights: Pretrained, keep_encoding: bool = False) -> dict[str, Any]:
    """Return a config whose model has the architecture of the weights.

    The encoding is the config's where it names one, else that of the weights; `keep_encoding` puts that of the weights
    beside the config's. Training options, such as drop_path, stay as the config has them.
    """
    theirs, model = weights.architecture, cfg.get("model")
    if theirs is None:
        raise DataError(
            f"{weights.reference.path} does not say which model it is of: write its sizes into the config, with "
            f"weights='{weights.reference.path}'"
        )
    own = model.get("backbone") if isinstance(model, dict) else None
    if not isinstance(model, dict) or not isinstance(own, dict) or not isinstance(model.get("modalities"), dict):
        return cfg  # check() has the sentence
    backbone = {key: value for key, value in theirs["backbone"].items() if key not in OF_TRAINING}
    if own.get("type") == backbone.get("type"):
        backbone |= {key: own[key] for key in OF_TRAINING if key in own}
    if isinstance(own.get("position_dims"), dict):  # several position spaces over the same blocks
        backbone["position_dims"] = own["position_dims"]
    backbone["encoding"] = _chosen(own.get("encoding"), weights.encoding, keep_encoding)
    same = _types(backbone["encoding"]) == _types(weights.encoding)
    modalities = dict(model["modalities"])
    for name, adapter in theirs["modalities"].items():
        if name not in modalities:
            raise DataError(
                f"{weights.reference.path} is of '{name}', got a config of {', '.join(modalities)}: give a config of "
                f"'{name}'"
            )
        ours = modalities[name]
        data = {key: ours[key] for key in OF_DATA if key in ours}
        if same:
            modalities[name] = data | adapter
        else:
            placed = {key: ours[key] for key in OF_PLACES if key in ours}
            modalities[name] = data | {key: value for key, value in adapter.items() if key not in OF_PLACES} | placed
    head = _pooled(model.get("head"), theirs)
    changed = model | dict(modalities=modalities, backbone=backbone, head=head)
    groups = cfg.get("param_groups")
    if not set(_types(backbone["encoding"])) <= set(_types(weights.encoding)):
        groups = (groups or {}) | dict(decay_encoding=False)
    return cfg | dict(model=changed, weights=str(weights.reference), param_groups=groups)


def _listed(encoding: Parts) -> list[dict[str, Any]]:
    return [] if not encoding else [encoding] if isinstance(encoding, dict) else list(encoding)


def _types(encoding: Parts) -> list[str]:
    return [part["type"] for part in _listed(encoding)]


def _chosen(own: Parts, theirs: Parts, keep: bool) -> Parts:
    """Arguments of an encoding that both have are those of the weights, where the config does not give them."""
    if not own:
        return theirs
    known = {part["type"]: part for part in _listed(theirs)}
    parts = [known.get(part["type"], {}) | part for part in _listed(own)]
    extra = [part for part in _listed(theirs) if part["type"] not in _types(own)] if keep else []
    return parts[0] if len(parts) == 1 and not extra and isinstance(own, dict) else [*extra, *parts]


def _pooled(head: Any, theirs: dict[str, Any]) -> Any:
    """A classifier pools as that of the weights did; the mean, where the model has no class token."""
    if not isinstance(head, dict) or head.get("type") != "Classifier":
        return head
    other = theirs.get("head") or {}
    if other.get("type") == "Classifier":
        return head | dict(pool=other.get("pool", "class"))
    without = any(adapter.get("class_token") is False for adapter in theirs["modalities"].values())
    return head | dict(pool="mean") if without else head


def begin(model: nn.Module, cfg: Config) -> list[str]:
    """Load the `weights` of a config into its model; return a summary in lines."""
    path = parse_reference(cfg["weights"]).path
    if not path.is_file():
        raise DataError(
            f"weights, what the config begins with, are not at {path}: train them first",
            "--cfg-options weights=None begins at random",
        )
    return load_into(model, read(cfg["weights"]), cfg["model"]["backbone"].get("encoding"))


def load_into(model: nn.Module, weights: Pretrained, encoding: Parts) -> list[str]:
    """Load what fits and return a summary of up to five lines. All of a backbone but its encoding must fit.

    `encoding` is that of the model. Weights of an encoding are taken for one of the same type, wherever it stands.
    """
    own, given = model.state_dict(), weights.weights
    names = _Names(model, encoding, encoding if weights.architecture is None else weights.encoding)
    source = {name: names.in_file(name) for name in own}
    fitting = {name: at for name, at in source.items() if at in given and given[at].shape == own[name].shape}
    wrong = next((n for n in own if n.startswith("backbone.") and n not in fitting and names.part_of(n) is None), None)
    if wrong is not None:
        there = f"{tuple(given[wrong].shape)} instead of {tuple(own[wrong].shape)}" if wrong in given else "missing"
        raise DataError(
            f"{weights.reference.path} is of another backbone: {wrong} is {there}. Give the config the model of that "
            "run, or leave weights out",
            "--weights FILE gives it that model",
        )
    checkpoint.check_finite({at: given[at] for at in fitting.values()}, weights.reference.path)
    model.load_state_dict(own | {name: given[at] for name, at in fitting.items()})
    taken = sum(given[at].numel() for at in fitting.values())
    lines = [f"weights of {weights.reference.path} ({weights.source}): {len(fitting)} tensors, {taken:,} numbers"]
    if weights.assumed:
        lines.append(f"assumed, as the file does not say it: {weights.assumed}")
    if weights.source in SOURCES:
        lines.append(f"license of {weights.source}: {SOURCES[weights.source].LICENCE}")
    new = [names.label(name) for name in own if name not in fitting]
    used = set(fitting.values())
    left = [names.label_in_file(name) for name in given if name not in used]
    lines.append(f"new: {_brief(new)}")
    lines.append(f"left out: {_brief([*left, *weights.unused])}")
    return lines


def _brief(labels: Sequence[str]) -> str:
    unique = list(dict.fromkeys(labels))
    more = f" and {len(unique) - NAMES} more" if len(unique) > NAMES else ""
    return ", ".join(unique[:NAMES]) + more or "nothing"


class _Names:
    """Names of weights in a model and in a file whose encodings differ."""

    def __init__(self, model: nn.Module, encoding: Parts, theirs: Parts) -> None:
        self.places = list(_encoding_places(model))
        self.own, self.theirs = _types(encoding), _types(theirs)
        self.composed = isinstance(encoding, (list, tuple)), isinstance(theirs, (list, tuple))

    def _split(self, name: str, composed: bool, types: list[str]) -> tuple[str, int, str] | None:
        """(place, which part of the encoding, name inside of it); None where the name is of no encoding."""
        place = next((at for at in self.places if name.startswith(f"{at}.")), None)
        if place is None:
            return None
        inner = name[len(place) + 1 :]
        match = re.fullmatch(r"parts\.(\d+)\.(.+)", inner) if composed else None
        i, inner = (int(match[1]), match[2]) if match else (0, inner)
        return (place, i, inner) if i < len(types) else None

    def part_of(self, name: str) -> int | None:
        """The number of the model's encoding that a name belongs to."""
        found = self._split(name, self.composed[0], self.own)
        return None if found is None else found[1]

    def in_file(self, name: str) -> str:
        found = self._split(name, self.composed[0], self.own)
        if found is None:
            return name
        place, i, inner = found
        if self.own[i] not in self.theirs:
            return ""
        j = self.theirs.index(self.own[i])
        return f"{place}.parts.{j}.{inner}" if self.composed[1] else f"{place}.{inner}"

    def label(self, name: str) -> str:
        return _label(name, self._split(name, self.composed[0], self.own), self.own)

    def label_in_file(self, name: str) -> str:
        return _label(name, self._split(name, self.composed[1], self.theirs), self.theirs)


def _label(name: str, found: tuple[str, int, str] | None, types: list[str]) -> str:
    return name.rpartition(".")[0] or name if found is None else types[found[1]]


def _encoding_places(model: nn.Module) -> Iterator[str]:
    """Where encodings stand in a model, without those inside of another."""
    last = None
    for name, module in model.named_modules():
        if isinstance(module, PositionEncoding | LayerEncoding) and (last is None or not name.startswith(f"{last}.")):
            yield (last := name)
