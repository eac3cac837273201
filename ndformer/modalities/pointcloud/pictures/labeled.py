"""Pictures and .ply files of labeled clouds: prediction, truth and error."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

from ndformer.framework.data.dataset import Sample
from ndformer.framework.pictures.cards import font
from ndformer.framework.system import atomic
from ndformer.modalities.pointcloud.pictures.clouds import class_colors, draw

GRAY, RIGHT, WRONG = (205, 205, 205), (170, 200, 185), (213, 60, 40)
SIZE, LINE = 360, 18
VIEWS = ((35.0, 35.0), (215.0, 35.0))


def write(stem: Path, sample: Sample, prediction: np.ndarray, classes: Sequence[str], up: str = "z") -> None:
    """Write STEM_prediction.ply, with labels also STEM_truth.ply and STEM_error.ply, and STEM.png of all."""
    points, labels = sample["points"], sample.get("labels")
    panels, values = dict(prediction=class_colors(prediction)), dict(prediction=prediction)
    title = Path(str(sample.get("path", stem.name))).name
    if labels is not None:
        labeled = labels >= 0
        panels["truth"], values["truth"] = class_colors(labels), labels
        error = np.where((prediction == labels)[:, None], RIGHT, WRONG)
        panels["error"] = np.where(labeled[:, None], error, GRAY).astype(np.uint8)
        title += f"   {(prediction == labels)[labeled].mean():.1%} of points right" if labeled.any() else ""
    for name, colors in panels.items():
        write_ply(stem.with_name(f"{stem.name}_{name}.ply"), points, colors, values.get(name))
    cloud = np.concatenate([points, sample["normals"]], 1) if "normals" in sample else points
    rows = [np.asarray(draw(cloud, colors, SIZE, VIEWS, up)) for colors in panels.values()]
    used = np.unique(np.concatenate([prediction, prediction if labels is None else labels[labels >= 0]])).tolist()
    wide, legend = rows[0].shape[1], {i: str(classes[i]) for i in used}
    per_row = max(1, wide // 150)
    tall = LINE * (1 - (-len(legend) // per_row)) + 8
    sheet = Image.new("RGB", (wide, sum(len(row) + LINE for row in rows) + tall), "white")
    pen, top = ImageDraw.Draw(sheet), 0
    for name, row in zip(panels, rows):
        pen.text((8, top + 2), f"{name}   {title}" if top == 0 else name, fill=(20, 20, 20), font=font(12))
        sheet.paste(Image.fromarray(row), (0, top + LINE))
        top += len(row) + LINE
    colors = class_colors(np.array(used))
    for k, name in enumerate(legend.values()):
        x, y = 8 + k % per_row * 150, top + 6 + k // per_row * LINE
        pen.rectangle((x, y + 2, x + 11, y + 13), fill=tuple(colors[k].tolist()))
        pen.text((x + 16, y), name, fill=(20, 20, 20), font=font(11))
    with atomic.replacing(stem.with_name(f"{stem.name}.png")) as half:
        sheet.save(half)


def write_ply(path: Path, points: np.ndarray, colors: np.ndarray, labels: np.ndarray | None = None) -> None:
    """Write points (N, 3) with colors (N, 3) uint8 and class numbers (N,) as binary PLY."""
    kind, called = ("<f8", "double") if points.dtype == np.float64 else ("<f4", "float")
    row = np.dtype([*((axis, kind) for axis in "xyz"), *((name, "u1") for name in ("red", "green", "blue"))])
    fields = "".join(f"property {called} {axis}\n" for axis in "xyz")
    fields += "".join(f"property uchar {name}\n" for name in ("red", "green", "blue"))
    columns = [*points.T, *colors.T]
    if labels is not None:
        row, columns = np.dtype([*row.descr, ("label", "<i4")]), [*columns, labels]
        fields += "property int label\n"
    table = np.rec.fromarrays(columns, row)
    head = f"ply\nformat binary_little_endian 1.0\nelement vertex {len(points)}\n{fields}end_header\n"
    with atomic.replacing(path) as half:
        half.write_bytes(head.encode() + table.tobytes())
