"""Descriptions of files with many clouds or with one array of a scene: ModelNet's hdf5, ScanNet's npy and json."""

from pathlib import Path
from typing import Any

import numpy as np

from ndformer.framework import foreign
from ndformer.framework.data.describe import CONTENT, NO, Describer, Description
from ndformer.framework.errors import DataError
from ndformer.framework.registry import DESCRIBERS

KEYS = ("segIndices", "segGroups")


@DESCRIBERS.register_module()
class CloudTables(Describer):
    names = r".*\.(segs|aggregation)\.json"

    def claim(self, path: Path, begin: bytes) -> int:
        """Recognize files by their content where other modalities use the ending too."""
        ending = path.suffix.lower()
        if ending in (".h5", ".hdf5"):
            return CONTENT if "data" in _hdf5(path) else NO
        array = _npy(path) if ending == ".npy" and begin else None
        plain = array is not None and not array.dtype.names and not (array.ndim == 2 and array.dtype.kind == "f")
        return CONTENT if plain else super().claim(path, begin)

    def describe(self, path: Path, rows: int) -> Description:
        about = {".json": _scene, ".npy": _array}.get(path.suffix.lower(), _modelnet)
        return about(path)


def _npy(path: Path) -> np.ndarray | None:
    try:
        return foreign.array(path, mapped=True)
    except (OSError, EOFError, ValueError, DataError):  # the reader of clouds or events reports the error
        return None


def _hdf5(path: Path) -> dict[str, foreign.Table]:
    """Return the tables of an hdf5 file, empty where it cannot be read."""
    try:
        return foreign.tables(path)
    except (OSError, ValueError, MemoryError, DataError):
        return {}  # the reader of events reports the error


def _modelnet(path: Path) -> Description:
    try:
        tables = foreign.read_tables(path, [name for name in ("data", "label") if name in _hdf5(path)])
    except (OSError, ValueError, MemoryError) as error:
        raise DataError(f"{path} cannot be read as an hdf5 file ({error}): get it again") from None
    points, labels = tables["data"], tables.get("label", np.zeros(0)).reshape(-1)
    if points.ndim != 3 or points.shape[2] != 3 or points.dtype.kind != "f":
        raise DataError(f"{path} holds data of shape {points.shape}, where ModelNet's have (N, n, 3): get it again")
    facts: dict[str, Any] = dict(format="ModelNet (hdf5)", clouds=len(points), points=points.shape[1])
    facts |= dict(normals="normal" in _hdf5(path))
    odd = [] if len(points) else ["it holds no clouds"]
    if points.size:
        finite = np.all(np.isfinite(points), axis=2)  # (N, n)
        bad = int(np.sum(~np.all(finite, axis=1)))
        if finite.any():
            ends = zip("xyz", points[finite].min(0), points[finite].max(0))
            facts |= {axis: [round(float(v), 4) for v in (low, high)] for axis, low, high in ends}
        odd += [f"{bad} clouds have points that are not finite"] if bad else []
    if len(labels) == len(points):
        facts |= dict(classes=counted(labels))
    else:
        odd.append(f"it has {len(labels)} labels for {len(points)} clouds")
    first = [dict(zip("xyz", (round(float(v), 4) for v in point))) for point in points[:1, :20].reshape(-1, 3)]
    return facts, odd, first


def _array(path: Path) -> Description:
    array = foreign.array(path)
    facts: dict[str, Any] = dict(format="NumPy array", shape=" x ".join(map(str, array.shape)), dtype=str(array.dtype))
    odd = [] if array.size else ["it is empty"]
    if array.size and array.dtype.kind in "iufb":
        facts |= dict(smallest=array.min().item(), largest=array.max().item())
        if array.dtype.kind in "iub" and array.ndim == 1 and len(classes := counted(array)) <= 100:
            facts |= dict(classes=classes)
            none = classes.get(-1, 0)
            odd += [f"{none} of {len(array)} have the label -1, which is none"] if none else []
        odd += ["all values are the same"] if array.min() == array.max() and array.size > 1 else []
    rows = array[:20].reshape(min(20, len(array)), -1)[:, :6] if array.ndim else array.reshape(1, 1)
    return facts, odd, [{f"column {i}": v for i, v in enumerate(row.tolist())} for row in rows]


def _scene(path: Path) -> Description:
    try:
        content = foreign.plain_json(path)
        name = next(key for key in KEYS if key in content)
        rows = content[name]
        if name == "segIndices":
            segments = np.asarray(rows, np.int64)
            facts = dict(format="ScanNet segments", vertices=len(segments), segments=len(np.unique(segments)))
            return facts, [] if len(segments) else ["it is empty"], []
        labels = [str(group["label"]) for group in rows]
        first = [dict(id=g["id"], label=g["label"], segments=len(g["segments"])) for g in rows[:20]]
    except (OSError, ValueError, KeyError, TypeError, StopIteration) as error:
        reason = " ".join(str(error).split())[:80] or "it has neither segIndices nor segGroups"
        raise DataError(f"{path} cannot be read as ScanNet's ({reason}): get it again") from None
    classes = {label: labels.count(label) for label in sorted(set(labels))}
    odd = [] if labels else ["it names no objects"]
    return dict(format="ScanNet objects", objects=len(labels), classes=classes), odd, first


def counted(labels: np.ndarray) -> dict[int, int]:
    return {int(value): int(count) for value, count in zip(*np.unique(labels, return_counts=True))}
