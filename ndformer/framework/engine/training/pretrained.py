"""Pretrained weights: reading a file, adapting a config to its architecture, loading it into a model.

weights = read("timm:vit_small_patch16_224.safetensors")     # the source may be left out
cfg = adapt_config(cfg, weights)                             # width, depth, heads, patches, norms
for line in load_into(model, weights, cfg["model"]["backbone"]["encoding"]):
    print(line)                                              # loaded, new and unused weights
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
from ndformer.framework.engine.config.checker import with_silent_options
from ndformer.framework.engine.config.references import Reference, parse_reference
from ndformer.framework.engine.config.text import parse_config
from ndformer.framework.engine.training import checkpoint
from ndformer.framework.errors import DataError, shorten_list
from ndformer.framework.foreign.mounts import check_not_special
from ndformer.framework.foreign.weights import load_tensors
from ndformer.framework.importer import Imported
from ndformer.framework.registry import IMPORTERS

NATIVE = "ndformer"  # the source of ndformer's checkpoints
TRAINING_ARGUMENTS = ("drop_path", "checkpointing", "backend")  # of backbones: no weight depends on them
POSITION_ARGUMENTS = ("class_at", "start", "plane")  # of adapters: they belong to the encoding
DATA_ARGUMENTS = ("mean", "std")  # of adapters: they belong to the dataset
MAX_NAMES = 6  # in a line of the summary

Parts = dict[str, Any] | Sequence[dict[str, Any]] | None  # an encoding, as in a config


@dataclass(frozen=True)
class Pretrained:
    """The weights of a file under the names of TokenModel, and their architecture."""

    reference: Reference
    source: str
    weights: dict[str, Tensor]
    architecture: dict[str, Any] | None  # modalities, backbone, head; None: unknown, in an old checkpoint
    unused: Sequence[str] = ()  # entries of the file that ndformer does not use
    assumed: str = ""  # settings that the file does not contain

    @property
    def encoding(self) -> Parts:
        return (self.architecture or {}).get("backbone", {}).get("encoding")


def read(text: str) -> Pretrained:
    """Read a checkpoint of ndformer, or another library's weights: FILE, or SOURCE:FILE to choose the importer."""
    reference = parse_reference(text)
    if not checkpoint.exists(reference.path):
        checkpoint.load(reference.path)  # raises, and lists the folder's checkpoints
    if reference.source is not None:
        return _import_weights(reference)
    try:
        content = checkpoint.load(reference.path)
    except DataError:  # not a checkpoint of ndformer: the importers read it next
        content = {}
    if {"format", "config", "classes"} & content.keys():
        return Pretrained(reference, NATIVE, content["model"], _architecture(content, reference.path))
    return _recognize(reference)


def _architecture(content: dict[str, Any], path: Path) -> dict[str, Any] | None:
    text, config_file = content.get("architecture", content.get("config")), path.with_name(saved.DATA)
    if text is None and not config_file.is_file():
        return None
    try:
        config = saved.read(config_file) if text is None else parse_config(text)
        architecture = config if "architecture" in content else config["model"]
        is_valid = all(isinstance(architecture[key], dict) for key in ("modalities", "backbone"))
    except (ValueError, SyntaxError, RecursionError, MemoryError, LookupError, TypeError):
        is_valid, architecture = False, {}
    if not is_valid:
        raise DataError(f"the config in {path} is damaged. Give another checkpoint of that run")
    return with_silent_options(architecture)


def _import_weights(reference: Reference) -> Pretrained:
    name = str(reference.source)
    source = IMPORTERS.get(name)
    options = dict(head_dim=source.head_dim) | reference.options
    try:
        imported = source.convert(load_tensors(reference.path, source.inside), **options)
    except DataError as error:
        option = re.fullmatch(r"--(\w+)-(\w+) N", error.option)  # of convert_checkpoint
        remedy = f"--weights '{name}({option[1]}_{option[2]}=N):{reference.path}'" if option else error.option
        raise DataError(str(error), remedy) from None
    parts = imported.parts.items()
    weights = {f"{prefix}.{name}": value for prefix, part in parts for name, value in part.weights.items()}
    return Pretrained(reference, name, weights, collect_architecture(imported), imported.left, imported.assumed)


def collect_architecture(imported: Imported) -> dict[str, Any]:
    """Return the model config of imported weights: modalities, backbone and head."""
    architecture: dict[str, Any] = dict(modalities={})
    for prefix, part in imported.parts.items():
        kind, _, modality = prefix.partition(".")
        if modality:
            architecture[kind][modality] = part.config
        else:
            architecture[kind] = part.config
    return architecture


def _recognize(reference: Reference) -> Pretrained:
    """Read a file with the only importer that accepts it."""
    accepted: list[Pretrained] = []
    timm_error = ""
    names = sorted(IMPORTERS.all(), key=lambda name: (name != "timm", name))  # DeiT and DINOv2 have its layout too
    for name in names:
        named = Reference(reference.path, name)
        try:
            weights = _import_weights(named)
        except DataError as error:
            if name == "timm" or (error.option and not timm_error):
                timm_error = f"{error}; {error.option}".rstrip("; ")
            continue
        if all(weights.architecture != other.architecture for other in accepted):
            accepted.append(weights)
    if not accepted:
        raise DataError(
            f"{reference.path}: expected a checkpoint of ndformer or weights of {', '.join(names)}, got "
            f"neither (timm: {timm_error})",
            f"--weights SOURCE:{reference.path} prints why that importer refuses it",
        )
    if len(accepted) > 1:
        sources = " and of ".join(weights.source for weights in accepted)
        raise DataError(
            f"{reference.path} has the names and shapes of {sources}, whose positions differ: name the importer",
            f"--weights {accepted[0].source}:{reference.path}",
        )
    return accepted[0]


def adapt_config(cfg: dict[str, Any], weights: Pretrained, keep_encoding: bool = False) -> dict[str, Any]:
    """Return the config with the architecture of the weights.

    The encoding is that of the config or, if it has none, of the weights; `keep_encoding` combines both. Training
    options such as drop_path stay as in the config.
    """
    source, model = weights.architecture, cfg.get("model")
    if source is None:
        raise DataError(
            f"{weights.reference.path} does not contain its architecture: write its sizes into the config, with "
            f"weights='{weights.reference.path}'"
        )
    configured = model.get("backbone") if isinstance(model, dict) else None
    if not isinstance(model, dict) or not isinstance(configured, dict) or not isinstance(model.get("modalities"), dict):
        return cfg  # load.check() raises
    backbone = {key: value for key, value in source["backbone"].items() if key not in TRAINING_ARGUMENTS}
    if configured.get("type") == backbone.get("type"):
        backbone |= {key: configured[key] for key in TRAINING_ARGUMENTS if key in configured}
    if isinstance(configured.get("position_dims"), dict):  # several position spaces over the same blocks
        backbone["position_dims"] = configured["position_dims"]
    backbone["encoding"] = _merge_encodings(configured.get("encoding"), weights.encoding, keep_encoding)
    same = _types(backbone["encoding"]) == _types(weights.encoding)
    modalities = dict(model["modalities"])
    for name, adapter in source["modalities"].items():
        if name not in modalities:
            raise DataError(
                f"{weights.reference.path}: expected a config with the modality '{name}', got {', '.join(modalities)}. "
                f"Give a config of '{name}'"
            )
        settings, names = modalities[name], () if same else POSITION_ARGUMENTS
        data, positions = ({key: settings[key] for key in keys if key in settings} for keys in (DATA_ARGUMENTS, names))
        modalities[name] = data | {key: value for key, value in adapter.items() if key not in names} | positions
    head = _set_pool(model.get("head"), source)
    changed = model | dict(modalities=modalities, backbone=backbone, head=head)
    groups = cfg.get("param_groups")
    if not set(_types(backbone["encoding"])) <= set(_types(weights.encoding)):
        groups = (groups or {}) | dict(decay_encoding=False)
    return cfg | dict(model=changed, weights=str(weights.reference), param_groups=groups)


def _list_encodings(encoding: Parts) -> list[dict[str, Any]]:
    return [] if not encoding else [encoding] if isinstance(encoding, dict) else list(encoding)


def _types(encoding: Parts) -> list[str]:
    return [part["type"] for part in _list_encodings(encoding)]


def _merge_encodings(configured: Parts, pretrained: Parts, combine: bool) -> Parts:
    """Return the configured encoding, with missing arguments from the pretrained one of the same type."""
    if not configured:
        return pretrained
    by_type = {part["type"]: part for part in _list_encodings(pretrained)}
    parts = [by_type.get(part["type"], {}) | part for part in _list_encodings(configured)]
    extra = [part for part in _list_encodings(pretrained) if part["type"] not in _types(configured)] if combine else []
    return parts[0] if len(parts) == 1 and not extra and isinstance(configured, dict) else [*extra, *parts]


def _set_pool(head: Any, source: dict[str, Any]) -> Any:
    """Give a classifier the pooling and the norm of the weights; without a class token, the mean."""
    if not isinstance(head, dict) or head.get("type") != "Classifier":
        return head
    other = source.get("head") or {}
    if other.get("type") == "Classifier":
        return head | dict(pool="class") | {key: other[key] for key in ("pool", "norm") if key in other}
    has_no_class_token = any(adapter.get("class_token") is False for adapter in source["modalities"].values())
    return head | dict(pool="mean") if has_no_class_token else head


def begin(model: nn.Module, cfg: Config) -> list[str]:
    """Load the `weights` of a config into its model; return a summary as lines."""
    path = parse_reference(cfg["weights"]).path
    check_not_special(path)
    if not checkpoint.exists(path):
        raise DataError(
            f"weights: expected a checkpoint, got {path}, which does not exist. Train them first",
            "--cfg-options weights=None starts from random weights",
        )
    return load_into(model, read(cfg["weights"]), cfg["model"]["backbone"].get("encoding"))


def load_into(model: nn.Module, weights: Pretrained, encoding: Parts) -> list[str]:
    """Load the weights that fit, and return a summary of up to five lines.

    All weights of the backbone must fit, except those of its encoding. `encoding` is the model's; its weights are
    loaded from an encoding of the same type, at any position in a list.
    """
    state, loaded = model.state_dict(), weights.weights
    paths, file_encoding = list(_encoding_paths(model)), encoding if weights.architecture is None else weights.encoding
    keys = {name: _by_type(name, paths, encoding) for name in state}
    file_keys = {name: _by_type(name, paths, file_encoding) for name in loaded}
    source = {key: name for name, key in reversed(file_keys.items())}  # the first of encodings of one type
    matches = {name: source[key] for name, key in keys.items() if key in source}
    matches = {name: key for name, key in matches.items() if loaded[key].shape == state[name].shape}
    required = (name for name in state if name.startswith("backbone.") and not keys[name][0])
    wrong = next((name for name in required if name not in matches), None)
    if wrong is not None:
        got = f"{tuple(loaded[wrong].shape)} instead of {tuple(state[wrong].shape)}" if wrong in loaded else "missing"
        raise DataError(
            f"{weights.reference.path} does not fit the backbone: {wrong} is {got}. Give the config the model of that "
            "run, or leave weights out",
            "--weights FILE sets that model",
        )
    checkpoint.check_finite({key: loaded[key] for key in matches.values()}, weights.reference.path)
    model.load_state_dict(state | {name: loaded[key] for name, key in matches.items()})
    count = sum(loaded[key].numel() for key in matches.values())
    lines = [f"weights of {weights.reference.path} ({weights.source}): {len(matches)} tensors, {count:,} numbers"]
    if weights.assumed:
        lines.append(f"assumed, since the file does not contain it: {weights.assumed}")
    if weights.source in IMPORTERS.all():
        lines.append(f"license of {weights.source}: {IMPORTERS.get(weights.source).license}")
    used = set(matches.values())
    unused = [_label(name, key) for name, key in file_keys.items() if name not in used]
    lines.append(f"new: {_brief([_label(name, key) for name, key in keys.items() if name not in matches])}")
    lines.append(f"left out: {_brief([*unused, *weights.unused])}")
    return lines


def _label(name: str, key: tuple[str, str]) -> str:
    return key[0] or name.rpartition(".")[0] or name


def _brief(labels: Sequence[str]) -> str:
    return shorten_list(list(dict.fromkeys(labels)), MAX_NAMES) or "nothing"


def _by_type(name: str, paths: Sequence[str], encoding: Parts) -> tuple[str, str]:
    """Return the type of the encoding with this weight, or "", and the name without the encoding's index in a list."""
    path = next((path for path in paths if name.startswith(f"{path}.")), None)
    if path is None:
        return "", name
    inner, types = name[len(path) + 1 :], _types(encoding)
    match = None if isinstance(encoding, dict) else re.fullmatch(r"parts\.(\d+)\.(.+)", inner)
    i, inner = (int(match[1]), match[2]) if match else (0, inner)
    return (types[i], f"{path}.{inner}") if i < len(types) else ("", name)


def _encoding_paths(model: nn.Module) -> Iterator[str]:
    """Yield the dotted paths of a model's encodings, without those inside another encoding."""
    last = None
    for name, module in model.named_modules():
        if isinstance(module, PositionEncoding | LayerEncoding) and (last is None or not name.startswith(f"{last}.")):
            yield (last := name)
