"""Description of a point cloud file in numbers."""

import re
from pathlib import Path
from typing import Any

import numpy as np

from ndformer.framework.data.describe import CONTENT, NO, Describer, Description, true_sentences
from ndformer.framework.registry import DESCRIBERS
from ndformer.modalities.pointcloud.describe.sets import counted
from ndformer.modalities.pointcloud.formats.columns import COLOR, XYZ
from ndformer.modalities.pointcloud.formats.files import ENDINGS, load_cloud
from ndformer.modalities.pointcloud.formats.lidar_bin import is_lidar
from ndformer.modalities.pointcloud.formats.scene import PLACES, is_scene


@DESCRIBERS.register_module()
class CloudFile(Describer):
    endings = ENDINGS

    def claim(self, path: Path, begin: bytes) -> int:
        """Accept the folder of a scene, and .npy with plain rows of 3, 6 or 9 floats, which no table of events has."""
        if path.is_dir():
            return CONTENT if is_scene(path) else NO
        plain = re.search(rb"'descr': '[<>=|]f[248]'.*'shape': \(\d+, [369]\)", begin[:256])
        npy = CONTENT if plain else NO
        if path.suffix.lower() == ".bin":  # an ending of other formats too
            return CONTENT if is_lidar(begin) else NO
        return npy if path.suffix.lower() == ".npy" else super().claim(path, begin)

    def describe(self, path: Path, rows: int) -> Description:
        labels = next((file.name for file in sorted(path.glob("segment*.npy"))), "segment.npy")  # ScanNet's: segment20
        loaded = load_cloud(path, labels=labels)
        cloud, points = loaded.cloud, loaded.cloud["points"]
        kind = "scene" if path.is_dir() else "mesh, points spread over it" if loaded.mesh else "point cloud"
        facts: dict[str, Any] = dict(format=f"{kind} ({PLACES if path.is_dir() else path.suffix.lower()})")
        facts |= dict(points=len(points))
        ends = zip("xyz", points.min(0), points.max(0))
        facts |= {axis: [round(float(v), 4) for v in (low, high)] for axis, low, high in ends}
        facts |= dict(normals="normals" in cloud, colors="colors" in cloud)
        if "labels" in cloud and len(classes := counted(cloud["labels"])) <= 100:
            facts |= dict(classes=classes)
        same = len(points) - len(np.unique(points, axis=0))
        flat = [axis for axis, side in zip("xyz", np.ptp(points, 0)) if side == 0]
        wrong = int((np.abs(np.linalg.norm(cloud.get("normals", np.eye(3)), axis=1) - 1) > 0.01).sum())
        middle, extent = points.mean(0), np.ptp(points, 0).max()
        far = np.abs(middle).max() > 10 * max(float(extent), 1e-9)
        odd = {
            f"{same} points are at the place of another one": same,
            f"all points have one {' and one '.join(flat)}": flat,
            f"{wrong} normals are not of length 1": wrong,
            "it is far from the origin: put CenterPoints or NormalizePoints after reading it": far,
            loaded.warning: loaded.left_out,
        }
        first = [dict(zip(XYZ, (round(v, 4) for v in point))) for point in points[:rows].tolist()]
        colors = cloud["colors"][:rows].round().astype(int).tolist() if "colors" in cloud else [()] * rows
        return facts, true_sentences(odd), [row | dict(zip(COLOR, color)) for row, color in zip(first, colors)]
