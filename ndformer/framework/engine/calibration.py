"""What a config leaves to the data (data-dependent initialisation): the unit and the first radii of its encoding."""

import copy
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from mmengine.config import Config

from ndformer.framework.encoding.base import FROM_DATA
from ndformer.framework.engine.building import build_model, with_classes
from ndformer.framework.engine.config.differences import changes
from ndformer.framework.engine.training.first_batch import places
from ndformer.framework.engine.training.loading import build_loader
from ndformer.framework.errors import ConfigError
from ndformer.framework.registry import ENCODINGS
from ndformer.framework.system import processes
from ndformer.framework.tokens import Where


def fitted(cfg: Config) -> tuple[Config, list[str]]:
    """The config with numbers in the place of 'auto' and 'spread', from the first batch that it trains on, and with the
    numbers of classes that it leaves open; and what was measured in words."""
    counted = with_classes(cfg)
    found = [f"{at} is {now}, as the data has it" for at, _, now in changes(cfg.to_dict(), counted.to_dict())]
    cfg = counted
    given = cfg.model.backbone.get("encoding")
    parts = [] if given is None else [given] if isinstance(given, dict) else list(given)
    if not any(map(_asks, parts)):
        return cfg, found
    seen = _first_places(_with(cfg, given, [_measured(part, None) for part in parts]))
    if len({where.positions.shape[2] for where in seen}) > 1:
        raise ConfigError(
            "'auto' and 'spread' speak of one position space, and this model has several: give numbers instead"
        )
    measured = processes.gather_objects([_measured(part, seen) for part in parts])[0]
    said = [
        f"measured on the first batch: {change}"
        for part, numbers in zip(parts, measured)
        for change in _changes(part, numbers)
    ]
    return _with(cfg, given, measured), found + said


def _asks(part: dict[str, Any]) -> bool:
    return any(
        _asks(value) if isinstance(value, dict) else value in FROM_DATA
        for value in part.values()
        if isinstance(value, str | dict)
    )


def _changes(part: dict[str, Any], measured: dict[str, Any]) -> Iterator[str]:
    for name, value in measured.items():
        if isinstance(value, dict):
            yield from _changes(part[name], value)
        elif part[name] != value:
            yield f"{name}={value} of {part['type']}, for '{part[name]}'"


def _measured(part: dict[str, Any], seen: Sequence[Where] | None) -> dict[str, Any]:
    return ENCODINGS.get(part["type"]).from_data(dict(part), seen)


def _with(cfg: Config, given: Any, parts: list[dict[str, Any]]) -> Config:
    changed = copy.deepcopy(cfg)
    changed.model.backbone.encoding = parts[0] if isinstance(given, dict) else parts
    return changed


def _first_places(cfg: Config) -> list[Where]:
    cfg.train_dataloader.num_workers = 0
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        model = build_model(cfg).eval()
        batch = model.to_device(next(iter(build_loader(cfg, "train"))))
        with places(model) as seen:
            model.features(batch["inputs"])
    return seen
