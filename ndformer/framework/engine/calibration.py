"""Calibration on the data: encoding options 'auto' and 'spread', the number of classes, the names of targets."""

import copy
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from mmengine.config import Config

from ndformer.framework.data.batches import Batches
from ndformer.framework.encoding.base import FROM_DATA
from ndformer.framework.engine.building import build_model, with_classes, with_targets
from ndformer.framework.engine.config.differences import changes
from ndformer.framework.engine.training.first_batch import record_positions
from ndformer.framework.engine.training.loading import build_loader
from ndformer.framework.errors import ConfigError
from ndformer.framework.registry import ENCODINGS
from ndformer.framework.system import processes
from ndformer.framework.tokens import Where


def calibrate(cfg: Config, before: dict[str, Any] | None = None) -> tuple[Config, list[str]]:
    """Replace 'auto' and 'spread' by numbers measured on the first training batch, and set missing class counts.

    Metrics get the names of targets. `before` is the config of the run to resume, whose numbers are kept. Returns the
    new config, and messages on what was measured.
    """
    counted = with_targets(with_classes(cfg))
    messages = [f"{key} is {value}, from the data" for key, _, value in changes(cfg.to_dict(), counted.to_dict())]
    cfg = counted
    encoding = cfg.model.backbone.get("encoding")
    parts = [] if encoding is None else [encoding] if isinstance(encoding, dict) else list(encoding)
    if before is not None and any(map(_is_from_data, parts)):
        earlier = before["model"]["backbone"].get("encoding")
        earlier = [earlier] if isinstance(earlier, dict) else list(earlier or [])
        parts = [
            _with_measured(part, old) for part, old in itertools.zip_longest(parts, earlier[: len(parts)], fillvalue={})
        ]
        cfg = _with_parts(cfg, parts)
    if not any(map(_is_from_data, parts)):
        return cfg, messages
    positions = _first_positions(_with_parts(cfg, [_measure(part, None) for part in parts]))
    if len({where.positions.shape[2] for where in positions}) > 1:
        raise ConfigError(
            "'auto' and 'spread' need one position space, and this model has several: give numbers instead"
        )
    measured = processes.gather_objects([_measure(part, positions) for part in parts])[0]
    messages += [
        f"measured on the first batch: {change}"
        for part, numbers in zip(parts, measured)
        for change in _changes(part, numbers)
    ]
    return _with_parts(cfg, measured), messages


def _with_measured(part: dict[str, Any], before: dict[str, Any]) -> dict[str, Any]:
    """Return the options of an encoding with the numbers that a run measured before."""
    if part.get("type") != before.get("type"):
        return part
    options = {}
    for name, value in part.items():
        known = before.get(name)
        if isinstance(value, dict):
            value = _with_measured(value, known if isinstance(known, dict) else {})
        elif value in FROM_DATA and isinstance(known, (int, float, list, tuple)):
            value = known
        options[name] = value
    return options


def _is_from_data(part: dict[str, Any]) -> bool:
    return any(
        _is_from_data(value) if isinstance(value, dict) else value in FROM_DATA
        for value in part.values()
        if isinstance(value, str | dict)
    )


def _changes(part: dict[str, Any], measured: dict[str, Any]) -> Iterator[str]:
    for name, value in measured.items():
        if isinstance(value, dict):
            yield from _changes(part[name], value)
        elif part[name] != value:
            yield f"{name}={value} of {part['type']}, for '{part[name]}'"


def _measure(part: dict[str, Any], positions: Sequence[Where] | None) -> dict[str, Any]:
    return ENCODINGS.get(part["type"]).from_data(dict(part), positions)


def _with_parts(cfg: Config, parts: list[dict[str, Any]]) -> Config:
    changed = copy.deepcopy(cfg)
    backbone = changed.model.backbone
    backbone.encoding = parts[0] if isinstance(backbone.encoding, dict) else parts
    return changed


def _first_positions(cfg: Config) -> list[Where]:
    cfg.train_dataloader.num_workers = 0
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        model = build_model(cfg).eval()
        if model.in_turn:  # the first batch has one modality, which the seed draws
            raise ConfigError(
                "'auto' and 'spread' are measured on one batch, and each batch of a Mixture has another modality: give "
                "numbers instead"
            )
        loader = build_loader(cfg, "train")
        sampler = loader.batch_sampler
        if isinstance(sampler, Batches) and not cfg.train_dataloader.get("batch_tokens"):
            sampler.processes, sampler.rank = 1, 0  # the batch of all processes, however many there are
        batch = model.to_device(next(iter(loader)))
        positions: list[Where] = []
        with record_positions(model, lambda _, where: positions.append(where)):
            model.features(batch["inputs"])
    return positions
