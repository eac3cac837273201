"""Conversion of data in memory to a point cloud."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from torch import Tensor

from ndformer.modalities.pointcloud.formats.columns import Cloud, Columns, build_cloud, name_rows, plain, split_names
from ndformer.modalities.pointcloud.formats.files import finite_points


def to_cloud(value: Any, columns: str | None = None) -> Cloud:
    """Convert rows of numbers (array or tensor), or a mapping of columns by name, to a cloud like read_cloud's."""
    if isinstance(value, Mapping):
        table = {plain(str(name)): np.asarray(values) for name, values in value.items()}
        if len({values.shape for values in table.values()}) != 1 or next(iter(table.values())).ndim != 1:
            raise ValueError(f"columns of a cloud must be arrays (points,) of one length, got {_shapes(table)}")
    else:
        rows = np.asarray(value.detach().cpu() if isinstance(value, Tensor) else value)
        if rows.dtype.names:
            return to_cloud({name: rows[name] for name in rows.dtype.names})
        table = name_rows(rows, None if columns is None else split_names(columns))
    with np.errstate(all="ignore"):  # overflows become infinite and are found below
        cloud = finite_points(build_cloud(table)).checked("the cloud")
    return {name: values for name, values in cloud.items() if name != "labels"}


def _shapes(table: Columns) -> str:
    return ", ".join(f"{name} {values.shape}" for name, values in table.items())
