"""ScanNet's release, scene by scene, as the arrays that scenes.py reads.

SCENE/SCENE_vh_clean_2.ply                       the mesh: its vertices are the points
SCENE/SCENE_vh_clean_2.0.010000.segs.json        which segment each vertex is in
SCENE/SCENE.aggregation.json                     which segments an object is made of, and what it is called
scannetv2-labels.combined.tsv                    what that is among NYU40's classes

Meshes are taken as they lie; the axis alignment of SCENE.txt is not applied, as in Pointcept.
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
    """From what annotators wrote to the number of a class, -1 for what is none of the 20."""
    index = {nyu: i for i, nyu in enumerate(SCANNET.values())}
    try:
        rows = list(csv.DictReader(foreign.lines(path), delimiter="\t"))
        if not rows:
            raise ValueError("it has no rows")
        return {row["raw_category"]: index.get(int(row["nyu40id"] or 0), -1) for row in rows}
    except FileNotFoundError:
        raise DataError(f"{path} is missing: it comes with ScanNet's release", "--labels says where it is") from None
    except (KeyError, ValueError, TypeError, OSError, csv.Error) as error:
        raise DataError(f"{path} is not the table of ScanNet's labels ({error}): get it again") from None


def prepare(scene: Path, labels: dict[str, int] | None) -> dict[str, np.ndarray]:
    """coord, color, normal and, with `labels`, segment20 and instance, a row for each vertex."""
    mesh = scene / f"{scene.name}{MESH}"
    try:
        vertices, faces = parse_ply(foreign.content(mesh))
        points = np.stack([vertices[name] for name in "xyz"], 1).astype(np.float32)
        colours = np.stack([vertices[name] for name in ("red", "green", "blue")], 1).astype(np.uint8)
        normals = vertex_normals(points.astype(np.float64), triangles(faces, len(points)))
    except FileNotFoundError:
        raise DataError(f"{mesh} is missing") from None
    except KeyError as error:
        raise DataError(f"{mesh} has vertices without {error}") from None
    except (ValueError, ArithmeticError, OSError, MemoryError) as error:
        raise DataError(f"{mesh} cannot be read ({' '.join(str(error).split())}): get it again") from None
    if len(points) < 2 or not np.isfinite(points).all():
        raise DataError(f"{mesh} has {len(points)} vertices, not all of them at finite places: get it again")
    found = dict(coord=points, color=colours, normal=normals.astype(np.float32))
    return found if labels is None else found | annotation(scene, labels, len(points))


def annotation(scene: Path, labels: dict[str, int], points: int) -> dict[str, np.ndarray]:
    """segment20 (N,) and instance (N,), -1 where nobody said anything."""
    path = scene / f"{scene.name}{SEGMENTS}"
    given = _json(path, "segIndices")
    if len(given) != points:
        raise DataError(f"{path} speaks of {len(given)} vertices, the mesh has {points}: get both again")
    if not all(type(one) is int and abs(one) < 2**63 for one in given):
        raise DataError(f"{path} has segments that are no numbers of segments: get it again")
    segments = np.array(given, np.int64)
    path = scene / f"{scene.name}.aggregation.json"
    label, instance = np.full(points, -1), np.full(points, -1)
    known, inside = np.unique(segments, return_inverse=True)
    for group in _json(path, "segGroups"):
        try:
            name, own = str(group["label"]), np.asarray(group["segments"], np.int64)
            number = np.int64(group["id"])
        except (KeyError, TypeError, ValueError, ArithmeticError) as error:
            raise DataError(
                f"{path} has an object without what should be known of it ({error}): get it again"
            ) from None
        if name not in labels:
            raise DataError(f"{path} calls an object '{name}', which the table of labels does not know: get both again")
        member = np.isin(known, own)[inside]
        label[member], instance[member] = labels[name], number
    return dict(segment20=label.astype(np.int64), instance=instance.astype(np.int64))


def _json(path: Path, key: str) -> list[Any]:
    try:
        found = foreign.plain_json(path)[key]
    except FileNotFoundError:
        raise DataError(
            f"{path} is missing: scenes of the test set come without it, they are not to be labelled"
        ) from None
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise DataError(f"{path} cannot be read ({' '.join(str(error).split())[:80]}): get it again") from None
    if not isinstance(found, list):
        raise DataError(f"{path} has no list of {key}: get it again")
    return found
