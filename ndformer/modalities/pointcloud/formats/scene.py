"""Reader of scenes in Pointcept's layout: a folder of arrays.

coord.npy (N, 3) in meters, and optionally color.npy (N, 3) 0..255, normal.npy (N, 3) and a file of labels (N,).
"""

from pathlib import Path

import numpy as np

from ndformer.framework import foreign
from ndformer.framework.errors import DataError
from ndformer.modalities.pointcloud.formats.columns import Cloud

PLACES = "coord.npy"
FILES = dict(points=PLACES, colors="color.npy", normals="normal.npy")


def is_scene(folder: Path) -> bool:
    return (folder / PLACES).is_file()


def read_scene(folder: Path, labels: str | None) -> Cloud:
    """Read the arrays of a scene; `labels` is the name of the label file, which may be missing."""
    points = array(folder / PLACES, 3)
    cloud = dict(points=points)
    for name, file in FILES.items():
        if foreign.is_file(folder / file):
            cloud[name] = array(folder / file, 3, len(points))
    if labels is not None and foreign.is_file(folder / labels):
        cloud["labels"] = array(folder / labels, 0, len(points))
    return cloud


def array(path: Path, width: int, rows: int | None = None) -> np.ndarray:
    """Read an npy file (N, width), or (N,) where `width` is 0; `rows` is the expected number of rows."""
    try:
        values = foreign.array(path)
    except FileNotFoundError:
        raise DataError(f"{path} is missing: prepare the scene again, or remove it") from None
    except (ValueError, OSError, EOFError, MemoryError) as error:
        reason = " ".join(str(error).split()).removesuffix(".")
        raise DataError(f"{path} cannot be read ({reason}): it may be incomplete, get it again") from None
    if width == 0 and values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    expected = (rows if rows is not None else values.shape[0] if values.ndim else 0, *([width] if width else []))
    if values.shape != expected or values.dtype.kind not in ("iu" if width == 0 else "iuf"):
        shape = ", ".join(map(str, [rows or "points"] + [width] * (width > 0)))
        expected_text = f"{'integers' if width == 0 else 'numbers'} of shape ({shape})"
        raise DataError(
            f"{path} must have {expected_text}, got {values.dtype} of shape {values.shape}: prepare the scene again"
        )
    return values
