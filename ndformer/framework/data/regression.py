"""The targets of a whole dataset, from which heads for regression compute means, spreads and references."""

from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from ndformer.framework.data.dataset import Dataset
from ndformer.framework.errors import DataError

SAME = 1e-9  # times the largest value: targets with a smaller standard deviation differ by rounding alone


class TargetTable(NamedTuple):
    """The targets of N samples and, if they have one, their compositions: counts of K kinds of parts, such as atoms."""

    targets: np.ndarray  # (N, T) float64, NaN where unknown
    composition: np.ndarray | None = None  # (N, K)


@runtime_checkable
class Tabulated(Protocol):
    """A dataset that knows the targets of all samples without reading them one by one."""

    def target_table(self) -> TargetTable:
        """Return the targets, and the composition, of all samples."""
        ...


def target_table(data: Dataset) -> TargetTable:
    """Return the targets of a dataset, by reading all its samples if they are not known without.

    With `skip_bad`, samples that cannot be read are left out.
    """
    if isinstance(data, Tabulated):
        return data.target_table()
    samples = list(_readable(data))
    if not samples:
        raise DataError(f"{data.data_root}: none of its {len(data)} samples can be read. Run ndformer check_data")
    composition = [sample["composition"] for sample in samples if "composition" in sample]
    targets = np.stack([np.asarray(sample["targets"], np.float64) for sample in samples])
    return TargetTable(targets, np.stack(composition) if composition else None)


def _readable(data: Dataset) -> Iterator[dict[str, Any]]:
    for i in range(len(data)):
        try:
            yield data.sample(0, i)["data_sample"]
        except DataError:
            if not data.skip_bad:
                raise
