"""What a checked config builds: the model, its data where it is to be, and whether both fit."""

import contextlib
import copy
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
from ndformer.framework.data.pack import Pack
from ndformer.framework.data.stand_ins import MARK, make_sample
from ndformer.framework.engine.config.data_root import datasets_of, parts_of
from ndformer.framework.engine.training.loading import build_dataset
from ndformer.framework.engine.training.optim import build_optimizer
from ndformer.framework.engine.training.progress import CheckpointTimer
from ndformer.framework.errors import ConfigError, DataError
from ndformer.framework.heads.head import Head
from ndformer.framework.model import TokenModel
from ndformer.framework.registry import DATASETS, HEADS, METRICS, MODELS, SCHEDULES, TRANSFORMS
from ndformer.framework.registry.signature import arguments
from ndformer.framework.system import devices
from ndformer.framework.system.autocast import AMP


def prepare_data(cfg: Config, sample: bool) -> None:
    """With --sample, make the generated stand-ins where there is nothing yet; without, refuse to take one for real."""
    homes = _homes(cfg)
    sample = sample or cfg.get("sample") == {}  # the config of a run with --sample
    names = [cfg.get("sample_data")] if isinstance(cfg.get("sample_data"), str) else cfg.get("sample_data")
    for home, name in zip(homes, names or [None] * len(homes)):
        if sample and name and (not home.exists() or not any(home.iterdir())):
            print(f"making the sample of {name} in {home}")
            make_sample(name, home)
        if not sample and (home / MARK).exists():
            raise DataError(
                f"{home} holds the generated stand-in, not the dataset", "add --sample, or another --data-root"
            )


STAND_IN = "on the generated stand-in: these figures say nothing about the dataset of that name"


def on_stand_in(cfg: Config) -> bool:
    """Whether any of its data is generated: then STAND_IN is to be said beside what was measured."""
    return any((home / MARK).exists() for home in _homes(cfg))


def _parts(cfg: Config) -> list[Any]:
    """What is trained on: one dataset, or several in turn."""
    dataset = cfg.train_dataloader.dataset
    return list(dataset.parts.values()) if "parts" in dataset else [dataset]


def _homes(cfg: Config) -> list[Path]:
    outer = rooted(cfg.train_dataloader.dataset, cfg.get("data_root")).get("data_root")
    return [Path(rooted(part, outer)["data_root"]) for part in _parts(cfg)]


def dataset_name(cfg: Config) -> str:
    return "+".join(part.type for part in _parts(cfg))


def dataset_kind(cfg: Config) -> type[Dataset]:
    """What a model is tested on."""
    return DATASETS.get(cfg.test_dataloader.dataset.type)


def with_classes(cfg: Config, known: Sequence[str] | None = None) -> Config:
    """Return the config with the numbers of classes that its heads leave open: of the `known` names, those of a
    checkpoint, else of the training data."""
    head = cfg.model.get("head") or {}
    heads = {"": head} if "type" in head else dict(head)
    heads = {
        name: head
        for name, head in heads.items()
        if head.get("classes") is None and "classes" in arguments(HEADS.get(head.type))[0]
    }
    if not heads:
        return cfg
    names = build_dataset(cfg, "train").classes if known is None else known
    cfg = copy.deepcopy(cfg)
    for name in heads:
        start = f"{name}: " if name else ""  # as a Mixture calls the classes of its parts
        head = cfg.model.head[name] if name else cfg.model.head
        head.classes = sum(one.startswith(start) for one in names)
    return cfg


def build_model(
    cfg: Config, device: str | torch.device | None = None, known: Sequence[str] | None = None
) -> TokenModel:
    """Return the model of a config; `known`: the names of a checkpoint's classes, for a config without their number."""
    cfg = with_classes(cfg, known)
    with _within_memory():
        model: TokenModel = MODELS.create(cfg.model)
    model.amp = AMP[(cfg.get("train_cfg") or {}).get("amp")]
    model.to(devices.claimed() if device is None else device)
    return model


@contextlib.contextmanager
def _within_memory() -> Iterator[None]:
    """Parameters of more bytes than the machine has end what builds them, before they are filled with numbers."""
    whole, taken = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"), 0

    def count(module: nn.Module, name: str, parameter: nn.Parameter | None) -> None:
        nonlocal taken
        taken += 0 if parameter is None else parameter.nbytes
        if taken > whole:
            raise DataError(
                f"the model has parameters of more than {taken / 2**30:.0f} GiB, and this machine a memory of "
                f"{whole / 2**30:.0f}: lower its width or its depth"
            )

    handle = nn.modules.module.register_module_parameter_registration_hook(count)
    try:
        yield
    finally:
        handle.remove()


@runtime_checkable
class Framing(Protocol):
    """A transform that says how high and wide samples are behind it."""

    size: int | tuple[int, int]  # a number: of the shorter side


def rehearse(cfg: Config, model: TokenModel) -> None:
    """Build what a config names beside its datasets, so that what is wrong with it shows before data is read."""
    lr, decay = cfg.optimizer.lr, cfg.optimizer.get("weight_decay", 0.0)
    if lr * decay >= 1:
        raise ConfigError(f"optimizer.weight_decay={decay:g} at lr={lr:g} takes all of a weight in a step: lower one")
    for metric in cfg.metrics:
        made = METRICS.create(metric)
        made.quantity(made.main)
    SCHEDULES.create(cfg.schedule)
    build_optimizer(model, cfg.optimizer, cfg.get("param_groups"))
    CheckpointTimer(cfg.train_cfg.get("checkpoint_every"))
    for at, dataset in datasets_of(cfg.to_dict()).items():
        for part in parts_of(dataset).values() or [dataset]:
            _rehearse_transforms(part, model, f"{at}_dataloader.dataset")


def _rehearse_transforms(dataset: dict[str, Any], model: TokenModel, at: str) -> None:
    """They end in what the model takes, in sizes that its patches divide."""
    transforms = [TRANSFORMS.create(one) for one in dataset.get("transforms", ())]
    packs = [one for one in transforms if isinstance(one, Pack)]
    ours = DATASETS.get(dataset["type"]).__module__.startswith(f"{DATASETS.scope}.")  # others' may read inputs
    if ours and not packs and len(model.modalities) == 1:
        raise ConfigError(
            f"{at}.transforms have no Pack, so what {dataset['type']} reads never becomes inputs: end them with "
            "dict(type='PackImage'), or that of its modality"
        )
    if not packs or packs[0].input_name not in model.modalities:
        return
    sides = cast(Adapter, model.modalities[packs[0].input_name]).patch_sides
    size = next((one.size for one in reversed(transforms) if isinstance(one, Framing)), None)
    if sides is not None and isinstance(size, tuple) and (size[0] % sides[0] or size[1] % sides[1]):
        raise ConfigError(
            f"{at}.transforms give {size[0]} x {size[1]}, which patches of {sides[0]} x {sides[1]} do not divide: "
            f"change model.modalities.{packs[0].input_name} or the size"
        )


def check_classes(model: TokenModel, loader: DataLoader[Any]) -> None:
    """The heads and the data speak of the same classes."""
    data: Any = loader.dataset
    pairs = [(f"head.{name}", model.head[name], part) for name, part in data.parts.items()] if model.in_turn else []  # pyright: ignore[reportIndexIssue]
    for at, head, part in pairs or [("head", model.head, data)]:
        found, given = len(part.classes), cast(Head, head).classes
        strange = [name for name in part.classes if name not in part.model_classes] if part.model_classes else []
        if given and given != found and strange:
            raise DataError(
                f"{type(part).__name__} under {part.data_root} has classes that the checkpoint does not know "
                f"({', '.join(strange[:3])}; it knows {', '.join(part.model_classes[:3])}"
                f"{', ...' * (len(part.model_classes) > 3)}): "
                "leave them out, or train with them"
            )
        if given and given != found:
            raise DataError(
                f"{type(part).__name__} under {part.data_root} has {found} classes, the model's head {given}",
                f"add --cfg-options model.{at}.classes={found}",
            )


def encoding_name(cfg: Config) -> str:
    encoding = cfg.model.backbone.get("encoding")
    if encoding is None:
        return "NoPE"
    return encoding["type"] if isinstance(encoding, dict) else "+".join(part["type"] for part in encoding)
