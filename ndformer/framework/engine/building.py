"""Building from a checked config: the model, generated data, and checks that both fit."""

import contextlib
import copy
import itertools
import math
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol, cast, runtime_checkable

import torch
from mmengine.config import Config
from torch import nn
from torch.utils.data import DataLoader

from ndformer.framework.adapter import Adapter
from ndformer.framework.data.dataset import Dataset, rooted
from ndformer.framework.data.mixture import Mixture
from ndformer.framework.data.pack import Pack
from ndformer.framework.data.stand_ins import MARK, make_sample
from ndformer.framework.engine.config.data_root import loader_datasets, mixture_parts
from ndformer.framework.engine.training.loading import build_dataset
from ndformer.framework.engine.training.optim import build_optimizer
from ndformer.framework.engine.training.progress import CheckpointTimer
from ndformer.framework.engine.training.token_lengths import Tiling
from ndformer.framework.errors import ConfigError, DataError
from ndformer.framework.evaluation.metric import Metric, check_value_name
from ndformer.framework.heads.head import Head
from ndformer.framework.model import TokenModel
from ndformer.framework.registry import DATASETS, HEADS, METRICS, MODELS, SCHEDULES, TRANSFORMS
from ndformer.framework.registry.signature import arguments
from ndformer.framework.system import devices
from ndformer.framework.system.autocast import AMP


def prepare_data(cfg: Config, sample: bool) -> None:
    """With --sample, generate missing stand-in data; without it, raise for a folder with generated data."""
    folders = _data_folders(cfg)
    sample = sample or cfg.get("sample") == {}  # the config of a run with --sample
    names = [cfg.get("sample_data")] if isinstance(cfg.get("sample_data"), str) else cfg.get("sample_data")
    for folder, name in zip(folders, names or [None] * len(folders)):
        if folder is None:  # the dataset reads no folder
            continue
        if sample and name and (not folder.exists() or not any(folder.iterdir())):
            print(f"making the sample of {name} in {folder}")
            make_sample(name, folder)
        if not sample and (folder / MARK).exists():
            raise DataError(
                f"{folder}: expected the dataset, got the generated stand-in", "add --sample, or another --data-root"
            )


STAND_IN = "the data were generated: do not compare these results with those of the dataset of that name"


def on_stand_in(cfg: Config) -> bool:
    """Whether some data is generated; then STAND_IN must be printed with the results."""
    return any((folder / MARK).exists() for folder in _data_folders(cfg) if folder is not None)


def _parts(cfg: Config) -> list[Any]:
    """Return the training dataset, or the parts of a mixture."""
    dataset = cfg.train_dataloader.dataset
    return list(dataset.parts.values()) if "parts" in dataset else [dataset]


def _data_folders(cfg: Config) -> list[Path | None]:
    outer = rooted(cfg.train_dataloader.dataset, cfg.get("data_root")).get("data_root")
    return [_data_folder(part, outer) for part in _parts(cfg)]


def _data_folder(dataset: Any, root: Any) -> Path | None:
    """Return the folder of a dataset: of the config, or the default of its class; None if it has none."""
    argument = arguments(DATASETS.get(dataset.type))[0].get("data_root")
    default = None if argument is None or argument.required else argument.default
    folder = rooted(dataset, root).get("data_root", default)
    return None if folder is None else Path(folder)


def dataset_name(cfg: Config) -> str:
    return "+".join(part.type for part in _parts(cfg))


def dataset_kind(cfg: Config) -> type[Dataset]:
    """Return the class of the test dataset."""
    return DATASETS.get(cfg.test_dataloader.dataset.type)


def with_classes(cfg: Config, class_names: Sequence[str] | None = None) -> Config:
    """Return the config with the number of classes of each head that leaves it open.

    They are counted from a checkpoint's `class_names`, else from the training data.
    """
    head = cfg.model.get("head") or {}
    heads = {"": head} if "type" in head else dict(head)
    heads = {
        name: head
        for name, head in heads.items()
        if head.get("classes") is None and "classes" in arguments(HEADS.get(head.type))[0]
    }
    if not heads:
        return cfg
    names = build_dataset(cfg, "train").classes if class_names is None else class_names
    cfg = copy.deepcopy(cfg)
    for name in heads:
        prefix = f"{name}: " if name else ""  # of class names in a Mixture
        head = cfg.model.head[name] if name else cfg.model.head
        head.classes = sum(class_name.startswith(prefix) for class_name in names)
    return cfg


def with_targets(cfg: Config, data: Dataset | None = None) -> Config:
    """Return the config with the names of targets in its metrics, from `data` or else the training data.

    Raise if the config has other names or another order, since metrics read targets by position.
    """
    if not any(metrics_with_targets(cfg)):
        return cfg
    cfg, data = copy.deepcopy(cfg), build_dataset(cfg, "train") if data is None else data
    parts = data.parts.values() if isinstance(data, Mixture) else [data]
    names, *further_names = [list(part.classes) for part in parts]
    for key, options in metrics_with_targets(cfg):
        targets = options.get("targets")
        if targets is None and any(class_names != names for class_names in further_names):
            raise ConfigError(
                f"{key}.targets: expected the names of targets, got none. Set it: tasks have different ones"
            )
        if targets is not None and not further_names and list(targets) != names:
            raise ConfigError(f"{key}.targets: expected {names}, as in the data, got {list(targets)}. Set it to None")
        options["targets"] = names if targets is None else targets
    return cfg


def metrics_with_targets(cfg: Config) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the key and the options of each metric that takes the names of targets, also inside PerTask."""
    for i, options in enumerate(cfg.metrics):
        inner = options.get("metric")
        key, options = (f"metrics.{i}.metric", inner) if isinstance(inner, dict) else (f"metrics.{i}", options)
        if issubclass(kind := METRICS.get(options["type"]), Metric) and kind.takes_targets:
            yield key, options


def build_model(
    cfg: Config, device: str | torch.device | None = None, class_names: Sequence[str] | None = None
) -> TokenModel:
    """Build the model of a config; `class_names` are a checkpoint's, for heads without a number of classes."""
    cfg = with_classes(cfg, class_names)
    with _within_memory():
        model: TokenModel = MODELS.create(cfg.model)
    model.amp = AMP[(cfg.get("train_cfg") or {}).get("amp")]
    model.to(devices.claim() if device is None else device)
    return model


@contextlib.contextmanager
def _within_memory() -> Iterator[None]:
    """Raise while a model is built if its parameters need more memory than the machine has."""
    total, used = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"), 0

    def count(module: nn.Module, name: str, parameter: nn.Parameter | None) -> None:
        nonlocal used
        used += 0 if parameter is None else parameter.nbytes
        if used > total:
            raise DataError(
                f"the model has parameters of more than {used / 2**30:.0f} GiB, and this machine a memory of "
                f"{total / 2**30:.0f}: lower its width or its depth"
            )

    handle = nn.modules.module.register_module_parameter_registration_hook(count)
    try:
        yield
    finally:
        handle.remove()


@runtime_checkable
class Nesting(Protocol):
    """A transform that applies others, as EachFrame does."""

    transforms: list[Any]


@runtime_checkable
class Framing(Protocol):
    """A transform with a fixed output size."""

    size: int | tuple[int, int]  # height and width, or the shorter side


def rehearse(cfg: Config, model: TokenModel) -> None:
    """Build all components of a config except its datasets, so that errors appear before data is read."""
    lr, decay = cfg.optimizer.lr, cfg.optimizer.get("weight_decay", 0.0)
    if lr * decay >= 1:
        raise ConfigError(
            f"optimizer.weight_decay={decay:g} with lr={lr:g} sets weights to 0 in one step: lower one of them"
        )
    names: list[str] = []
    for options in cfg.metrics:
        metric = METRICS.create(options)
        metric.quantity(metric.main)
        name = f"{metric.prefix}/{metric.main}" if metric.prefix else metric.main
        check_value_name(name, names, type(metric).__name__)
        names.append(name)
    SCHEDULES.create(cfg.schedule)
    build_optimizer(model, cfg.optimizer, cfg.get("param_groups"))
    CheckpointTimer(cfg.train_cfg.get("checkpoint_every"))
    _check_dense_heads(model)
    was_training = model.training
    for split, dataset in loader_datasets(cfg.to_dict()).items():
        model.train(split == "train")  # patches may have more sizes in training
        for part in mixture_parts(dataset).values() or [dataset]:
            _rehearse_transforms(part, model, f"{split}_dataloader.dataset")
    model.train(was_training)


def _check_dense_heads(model: TokenModel) -> None:
    for name, adapter in model.modalities.items():
        head = cast(Head, model.head[name] if isinstance(model.head, nn.ModuleDict) else model.head)
        if cast(Adapter, adapter).varies_tokens and head.makes_maps:
            raise ConfigError(
                f"model.modalities.{name}: expected patches of one size and no dropped tokens with "
                f"{type(head).__name__}, which makes maps of them, got patch_sizes or drop_tokens. Remove both"
            )
        place = cast(Adapter, adapter).class_at if cast(Adapter, adapter).prefix_names else "nowhere"
        if head.reads_cells and place != "nowhere":
            raise ConfigError(
                f"model.modalities.{name}: expected class_token=False or class_at='nowhere' with "
                f"{type(head).__name__} and neck.cells, got class_at='{place}': the class token would cover the tokens "
                "of its cell"
            )
        sides = cast(Adapter, adapter).patch_sides
        if head.patch is not None and sides is not None and set(sides) != {head.patch}:
            raise ConfigError(
                f"model.head.patch: expected the side of a token of model.modalities.{name}, {sides[0]} pixels, got "
                f"{head.patch:g}. Set it to {sides[0]}"
            )


def _rehearse_transforms(dataset: dict[str, Any], model: TokenModel, key: str) -> None:
    """Raise unless the transforms end in inputs for the model, in sizes that its patches divide."""
    transforms = [TRANSFORMS.create(options) for options in dataset.get("transforms", ())]
    nested = ((outer, *(outer.transforms if isinstance(outer, Nesting) else ())) for outer in transforms)
    transforms = list(itertools.chain.from_iterable(nested))
    packs = [transform for transform in transforms if isinstance(transform, Pack)]
    is_shipped = DATASETS.get(dataset["type"]).__module__.startswith(f"{DATASETS.scope}.")  # others may read inputs
    if is_shipped and not packs and len(model.modalities) == 1:
        raise ConfigError(
            f"{key}.transforms have no Pack, so samples of {dataset['type']} have no inputs: end them with "
            "dict(type='PackImage'), or the Pack of its modality"
        )
    if not packs or packs[0].input_name not in model.modalities:
        return
    sides = cast(Adapter, model.modalities[packs[0].input_name]).patch_sides
    size = next((transform.size for transform in reversed(transforms) if isinstance(transform, Framing)), None)
    if sides is not None and isinstance(size, tuple) and (size[0] % sides[0] or size[1] % sides[1]):
        raise ConfigError(
            f"{key}.transforms give {size[0]} x {size[1]}, which patches of {sides[0]} x {sides[1]} do not divide: "
            f"change model.modalities.{packs[0].input_name} or the size"
        )
    for multiple in (transform.multiple_of for transform in transforms if isinstance(transform, Tiling)):
        if sides is not None and (multiple % sides[0] or multiple % sides[1]):
            raise ConfigError(
                f"{key}.transforms give multiples of {multiple}, which patches of {sides[0]} x {sides[1]} do not "
                f"divide: set multiple_of={math.lcm(*sides)}"
            )


def check_classes(model: TokenModel, loader: DataLoader[Any]) -> None:
    """Raise unless each head has as many classes as its dataset."""
    for key, head, part in _heads(model, loader):
        count, head_classes = len(part.classes), head.classes
        unknown = [name for name in part.classes if name not in part.model_classes] if part.model_classes else []
        if head_classes and head_classes != count and unknown:
            raise DataError(
                f"{type(part).__name__} under {part.data_root} has classes that the checkpoint does not have "
                f"({', '.join(unknown[:3])}; it has {', '.join(part.model_classes[:3])}"
                f"{', ...' * (len(part.model_classes) > 3)}): "
                "remove them, or train with them"
            )
        if head_classes and head_classes != count:
            raise DataError(
                f"{type(part).__name__} under {part.data_root} has {count} classes, the model's head {head_classes}",
                f"add --cfg-options model.{key}.classes={count}",
            )


def fit_heads(model: TokenModel, loader: DataLoader[Any]) -> None:
    """Let each head compute its statistics of the complete training set."""
    for _, head, part in _heads(model, loader):
        head.fit(part)


def _heads(model: TokenModel, loader: DataLoader[Any]) -> Iterator[tuple[str, Head, Any]]:
    """Yield the key of each head in the model's config, the head and its dataset."""
    data: Any = loader.dataset
    if not model.in_turn:
        yield "head", cast(Head, model.head), data
        return
    parts, heads = data.parts if isinstance(data, Mixture) else {}, cast(nn.ModuleDict, model.head)
    if not parts or not parts.keys() <= heads.keys():
        raise ConfigError(
            "train_dataloader.dataset: expected a Mixture whose parts have the names of the heads "
            f"({', '.join(heads)}), got {', '.join(parts) or type(data).__name__}"
        )
    for name, part in parts.items():
        yield f"head.{name}", cast(Head, heads[name]), part


def encoding_name(cfg: Config) -> str:
    encoding = cfg.model.backbone.get("encoding")
    if encoding is None:
        return "NoPE"
    return encoding["type"] if isinstance(encoding, dict) else "+".join(part["type"] for part in encoding)
