"""Consistency checks between ranks: code, config and data must be equal in all processes of a run.

Processes that differ would wait for each other forever, or train on different settings.
"""

import hashlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from mmengine.config import Config

from ndformer.framework.data.dataset import Dataset
from ndformer.framework.engine.config.data_root import drop_repeated_roots
from ndformer.framework.engine.config.differences import ENDINGS, changes
from ndformer.framework.errors import ConfigError, DataError, shorten_list
from ndformer.framework.system import devices, processes

SOURCES = Path(__file__).parents[3]


def check_settings(cfg: Config, **options: object) -> None:
    """Raise unless all processes have the same code, versions, device, options and config, and batches that can mix."""
    _compare(
        dict(
            code=_code(),
            torch=torch.__version__,
            numpy=np.__version__,
            device=devices.select().type,
            dtype=str(torch.get_default_dtype()),
            options=options,
            config=drop_repeated_roots(cfg.to_dict()),
        )
    )
    if processes.is_distributed() and cfg.model.get("mix") and cfg.train_dataloader.get("batch_tokens"):
        raise ConfigError(
            f"model.mix: {cfg.model.mix.type} mixes equal batches of several processes, and those of batch_tokens are "
            "not equal. Set model.mix=None, or batch_size instead of batch_tokens"
        )


def check_data(datasets: Mapping[str, Dataset], batches: Mapping[str, int]) -> None:
    """Raise unless all processes have the same samples, classes and number of batches."""
    _compare(
        {
            split: dict(samples=len(data), classes=[*data.classes], batches=batches[split], data=_fingerprint(data))
            for split, data in datasets.items()
        }
    )


def _compare(values: dict[str, Any]) -> None:
    """Raise in all processes if the values of one differ from those of rank 0."""
    first, *later_ranks = processes.gather_objects(values)
    for rank, other in enumerate(later_ranks, 1):
        different = (change for change in changes(first, other) if not change[0].endswith(ENDINGS))
        differences = [f"rank {rank} has {path} {new!r:.60}, rank 0 {old!r:.60}" for path, old, new in different]
        if differences:
            raise DataError(
                f"the processes of this run do not agree: {shorten_list(differences, 3, '; ')}. Start all with the "
                "same command, code and data"
            )


@cache
def _code() -> str:
    digest = hashlib.sha256()
    for path in sorted(SOURCES.rglob("*.py")):
        digest.update(str(path.relative_to(SOURCES)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def _fingerprint(data: Dataset) -> str:
    names = data.stored_fingerprint() or [*map(data.name, range(len(data)))]
    digest = hashlib.sha256(repr([np.shape(data.labels), names]).encode())
    digest.update(np.ascontiguousarray(data.labels).tobytes())
    return digest.hexdigest()[:16]
