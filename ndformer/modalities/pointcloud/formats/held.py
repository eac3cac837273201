"""One cloud of what is in memory."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from torch import Tensor

from ndformer.modalities.pointcloud.formats.columns import Cloud, Columns, cloud_of, name_rows, plain, split_names
from ndformer.modalities.pointcloud.formats.files import usable


def held_cloud(value: Any, columns: str | None = None) -> Cloud:
    """As read_cloud gives one: of rows of numbers as an array or a tensor, or columns by their names."""
    if isinstance(value, Mapping):
        table = {plain(str(name)): np.asarray(values) for name, values in value.items()}
        if len({values.shape for values in table.values()}) != 1 or next(iter(table.values())).ndim != 1:
            raise ValueError(f"columns of a cloud are arrays (points,) of one length, got {_shapes(table)}")
    else:
        rows = np.asarray(value.detach().cpu() if isinstance(value, Tensor) else value)
        if rows.dtype.names:
            return held_cloud({name: rows[name] for name in rows.dtype.names})
        table = name_rows(rows, None if columns is None else split_names(columns))
    with np.errstate(all="ignore"):  # what overflows is found
        cloud = usable(cloud_of(table)).told("the cloud")
    return {name: values for name, values in cloud.items() if name != "labels"}


def _shapes(table: Columns) -> str:
    return ", ".join(f"{name} {values.shape}" for name, values in table.items())
