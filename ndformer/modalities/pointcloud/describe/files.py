"""What a file of a point cloud holds, in numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ndformer.modalities.pointcloud.formats.files import ENDINGS, read_cloud

__all__ = ["ENDINGS", "describe"]

MESHES = (".off",)


def describe(path: Path, rows: int = 5) -> dict[str, Any]:
    """Plain values by name; `odd` is a list of sentences, `first` the first points."""
    cloud = read_cloud(path)
    points = cloud["points"]
    kind = "mesh, points spread over it" if path.suffix.lower() in MESHES else "point cloud"
    found: dict[str, Any] = dict(
        format=f"{kind} ({path.suffix.lower()})", bytes=path.stat().st_size, points=len(points)
    )
    found |= {
        axis: [round(float(v), 4) for v in (low, high)] for axis, low, high in zip("xyz", points.min(0), points.max(0))
    }
    found |= dict(normals="normals" in cloud)
    odd = []
    same = len(points) - len(np.unique(points, axis=0))
    if same:
        odd.append(f"{same} points are at the place of another one")
    flat = [axis for axis, side in zip("xyz", np.ptp(points, 0)) if side == 0]
    if flat:
        odd.append(f"all points have one {' and one '.join(flat)}")
    if "normals" in cloud:
        wrong = int((np.abs(np.linalg.norm(cloud["normals"], axis=1) - 1) > 0.01).sum())
        odd += [f"{wrong} normals are not of length 1"] if wrong else []
    middle, reach = points.mean(0), np.ptp(points, 0).max()
    if np.abs(middle).max() > 10 * max(float(reach), 1e-9):
        odd.append("it is far from the origin: put NormalizePoints after reading it")
    first = [dict(zip("xyz", (round(float(v), 4) for v in point))) for point in points[:rows]]
    return found | dict(odd=odd, first=first)
