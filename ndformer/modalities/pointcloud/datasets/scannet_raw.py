"""Reader of ScanNet's release, which returns a scene as the arrays that scenes.py reads.

SCENE/SCENE_vh_clean_2.ply                       the mesh, whose vertices are the points
SCENE/SCENE_vh_clean_2.0.010000.segs.json        the segment of each vertex
SCENE/SCENE.aggregation.json                     the segments and the name of each object
scannetv2-labels.combined.tsv                    the NYU40 class of each name

Meshes are read as they are; the axis alignment of SCENE.txt is not applied, as in Pointcept.
"""

import csv
from pathlib import Path
from typing import Any

import numpy as np

from ndformer.framework import foreign
from ndformer.framework.errors import DataError
from ndformer.modalities.pointcloud.datasets.scenes import SCANNET
from ndformer.modalities.pointcloud.formats.meshes import triangles, vertex_normals
from ndformer.modalities.pointcloud.formats.ply import parse_ply

MESH, SEGMENTS = "_vh_clean_2.ply", "_vh_clean_2.0.010000.segs.json"


def label_map(path: Path) -> dict[str, int]:
    """Return the class number of each annotated name, -1 for names outside of the 20 classes."""
    index = {nyu: i for i, nyu in enumerate(SCANNET.values())}
    try:
        rows = list(csv.DictReader(foreign.lines(path), delimiter="\t"))
        if not rows:
            raise ValueError("it has no rows")
        return {row["raw_category"]: index.get(int(row["nyu40id"] or 0), -1) for row in rows}
    except FileNotFoundError:
        raise DataError(f"{path} is missing: it comes with ScanNet's release", "--labels gives its path") from None
    except (KeyError, ValueError, TypeError, OSError, csv.Error) as error:
        raise DataError(f"{path} is not the table of ScanNet's labels ({error}): get it again") from None


def prepare(scene: Path, labels: dict[str, int] | None) -> dict[str, np.ndarray]:
    """Return coord, color, normal and, with `labels`, segment20 and instance, with one row for each vertex."""
    mesh = scene / f"{scene.name}{MESH}"
    try:
        vertices, faces = parse_ply(foreign.content(mesh))
        points = np.stack([vertices[name] for name in "xyz"], 1).astype(np.float32)
        colors = np.stack([vertices[name] for name in ("red", "green", "blue")], 1).astype(np.uint8)
        normals = vertex_normals(points.astype(np.float64), triangles(faces, len(points)))
    except FileNotFoundError:
        raise DataError(f"{mesh} is missing") from None
    except KeyError as error:
        raise DataError(f"{mesh} has vertices without {error}") from None
    except (ValueError, ArithmeticError, OSError, MemoryError) as error:
        raise DataError(f"{mesh} cannot be read ({' '.join(str(error).split())}): get it again") from None
    if len(points) < 2 or not np.isfinite(points).all():
        raise DataError(f"{mesh} must have at least 2 vertices, all finite, got {len(points)} vertices: get it again")
    arrays = dict(coord=points, color=colors, normal=normals.astype(np.float32))
    return arrays if labels is None else arrays | annotation(scene, labels, len(points))


def annotation(scene: Path, labels: dict[str, int], points: int) -> dict[str, np.ndarray]:
    """Return segment20 (N,) and instance (N,), -1 where unlabeled."""
    path = scene / f"{scene.name}{SEGMENTS}"
    indices = _json(path, "segIndices")
    if len(indices) != points:
        raise DataError(f"{path} has {len(indices)} vertices, but the mesh has {points}: get both again")
    if not all(type(index) is int and abs(index) < 2**63 for index in indices):
        raise DataError(f"{path} has segments that are no numbers of segments: get it again")
    segments = np.array(indices, np.int64)
    path = scene / f"{scene.name}.aggregation.json"
    label, instance = np.full(points, -1), np.full(points, -1)
    unique, inverse = np.unique(segments, return_inverse=True)
    for group in _json(path, "segGroups"):
        try:
            name, members = str(group["label"]), np.asarray(group["segments"], np.int64)
            number = np.int64(group["id"])
        except (KeyError, TypeError, ValueError, ArithmeticError) as error:
            raise DataError(f"{path} has an object without label, segments or id ({error}): get it again") from None
        if name not in labels:
            raise DataError(f"{path} has an object '{name}', which is not in the table of labels: get both again")
        member = np.isin(unique, members)[inverse]
        label[member], instance[member] = labels[name], number
    return dict(segment20=label.astype(np.int64), instance=instance.astype(np.int64))


def _json(path: Path, key: str) -> list[Any]:
    try:
        content = foreign.plain_json(path)[key]
    except FileNotFoundError:
        raise DataError(f"{path} is missing: scenes of the test set have no labels to prepare") from None
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise DataError(f"{path} cannot be read ({' '.join(str(error).split())[:80]}): get it again") from None
    if not isinstance(content, list):
        raise DataError(f"{path} has no list of {key}: get it again")
    return content
