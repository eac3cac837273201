"""Whether all processes of a run are about to do the same (a consistency check between ranks), before its first step:
those that differ would wait for each other for ever, or train something that nobody has asked for."""

import hashlib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from mmengine.config import Config

from ndformer.framework.data.dataset import Dataset
from ndformer.framework.engine.config.data_root import following
from ndformer.framework.engine.config.differences import ENDINGS, changes
from ndformer.framework.errors import DataError
from ndformer.framework.system import devices, processes

SOURCES = Path(__file__).parents[3]


def check_settings(cfg: Config, **options: object) -> None:
    """Before anything is built."""
    _compare(
        dict(
            code=_code(),
            torch=torch.__version__,
            numpy=np.__version__,
            device=devices.select().type,
            dtype=str(torch.get_default_dtype()),
            options=options,
            config=following(cfg.to_dict()),
        )
    )


def check_data(datasets: Mapping[str, Dataset], batches: Mapping[str, int]) -> None:
    """Before the first batch."""
    _compare(
        {
            split: dict(samples=len(data), classes=[*data.classes], batches=batches[split], data=_fingerprint(data))
            for split, data in datasets.items()
        }
    )


def _compare(own: dict[str, Any]) -> None:
    """A sentence that names the first process which is not like rank 0, in all of them."""
    first, *others = processes.gather_objects(own)
    for rank, other in enumerate(others, 1):
        differences = list(_differences(first, other))
        if differences:
            more = f" and {len(differences) - 3} more" if len(differences) > 3 else ""
            raise DataError(
                f"the processes of this run do not agree: {'; '.join(f'rank {rank} has {d}' for d in differences[:3])}"
                f"{more}. Start all with the same command, code and data"
            )


def _differences(first: dict[str, Any], other: dict[str, Any]) -> Iterator[str]:
    for at, its, its_other in changes(first, other):
        if not at.endswith(ENDINGS):
            yield f"{at} {its_other!r:.60}, rank 0 {its!r:.60}"


@cache
def _code() -> str:
    """A digest of ndformer's sources."""
    found = hashlib.sha256()
    for path in sorted(SOURCES.rglob("*.py")):
        found.update(str(path.relative_to(SOURCES)).encode() + b"\0" + path.read_bytes())
    return found.hexdigest()[:16]


def _fingerprint(data: Dataset) -> str:
    """A digest of what the samples are called, and of their labels."""
    found = hashlib.sha256(repr([np.shape(data.labels), *map(data.name, range(len(data)))]).encode())
    found.update(np.ascontiguousarray(data.labels).tobytes())
    return found.hexdigest()[:16]
