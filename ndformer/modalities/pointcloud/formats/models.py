"""Reader of meshes through trimesh: OBJ, STL and GLB (binary glTF)."""

import importlib
import io
from pathlib import Path
from typing import Any

import numpy as np

from ndformer.framework import foreign
from ndformer.framework.errors import DataError
from ndformer.modalities.pointcloud.formats.columns import Columns

COST = {".obj": 20, ".stl": 8, ".glb": 4}  # bytes in memory for each byte of the file


def read_model(path: Path) -> tuple[Columns, np.ndarray]:
    """Read vertices, with colors where present, and triangles (F, 3), which are empty for a file of points.

    Several meshes are joined, at the positions that their scene gives them. Materials, textures and other files that it
    refers to are not opened.
    """
    kind, content = path.suffix.lower(), foreign.content(path)
    foreign.check_size(path, COST[kind] * len(content))
    try:
        trimesh: Any = importlib.import_module("trimesh")
    except ImportError:
        raise DataError(f"{path} needs trimesh: pip install 'ndformer[clouds]', or save it as .ply") from None
    if kind == ".obj":
        content = content.decode(errors="replace").encode()
    try:
        scene = trimesh.load_scene(io.BytesIO(content), file_type=kind[1:], process=False, skip_materials=True)
        geometry = scene.to_geometry()
        vertices = np.asarray(geometry.vertices, np.float64)
        faces = np.asarray(geometry.faces if isinstance(geometry, trimesh.Trimesh) else np.zeros((0, 3)), np.int64)
        visual = geometry.visual
        colors = np.asarray(visual.vertex_colors).T[:3] if visual.kind == "vertex" else ()
    except ImportError:  # raised while guessing the encoding of a damaged text
        raise ValueError("it is damaged, or takes more than trimesh itself to be read") from None
    except Exception as error:  # of any kind, from files that trimesh does not expect
        raise ValueError(f"trimesh cannot read it: {type(error).__name__} {error}") from None
    if not len(vertices):
        raise ValueError("it has no vertices")
    columns = dict(zip("xyz", vertices.T)) | dict(zip(("red", "green", "blue"), colors))
    return columns, faces
