"""Views: a sample in the attention viewer and the part of it that each token covers."""

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

SMALL, FEW = 160, 1024  # pictures up to this side or number of colors are stored as PNG, others as JPEG
MAX_POINTS = 2**18  # drawn points of a cloud


@dataclass(frozen=True, eq=False)
class Moments:
    """One picture of an image or one per moment of a video; a token is a box in some of them."""

    pictures: Sequence[np.ndarray]  # each (H, W, 3) uint8, all of one size
    boxes: np.ndarray  # (N, 6) integers: first picture, last picture + 1; top, left, bottom, right
    captions: Sequence[str] = ()  # of each moment

    def __len__(self) -> int:
        return len(self.boxes)

    def data(self) -> dict[str, Any]:
        height, width = self.pictures[0].shape[:2]
        return dict(
            kind="moments",
            pictures=[_as_url(pixels) for pixels in self.pictures],
            height=height,
            width=width,
            boxes=encode_array(self.boxes, "<i4"),
            captions=list(self.captions),
        )


@dataclass(frozen=True, eq=False)
class Cloud:
    """Points in space with the second axis upwards; each point belongs to a token or, with -1, to none."""

    points: np.ndarray  # (n, 3)
    token: np.ndarray  # (n,) the token of each point
    centers: np.ndarray  # (N, 3) of tokens
    sizes: np.ndarray | None = None  # (n,) diameters of points; 1 without
    names: Sequence[str] = ()  # of the tokens, besides their positions

    def __len__(self) -> int:
        return len(self.centers)

    def data(self) -> dict[str, Any]:
        selection = np.linspace(0, len(self.points) - 1, min(MAX_POINTS, len(self.points))).astype(int)
        low, high = (edge(np.concatenate([self.points, self.centers]), axis=0) for edge in (np.min, np.max))
        radius = max(float(np.linalg.norm(self.points - (low + high) / 2, axis=1).max()), 1e-9)

        def normalize(places: np.ndarray) -> np.ndarray:
            return (places - (low + high) / 2) / radius

        return dict(
            kind="cloud",
            points=encode_array(normalize(self.points[selection]), "<f4"),
            token=encode_array(self.token[selection], "<i4"),
            centers=encode_array(normalize(self.centers), "<f4"),
            sizes=None if self.sizes is None else encode_array(self.sizes[selection], "<f4"),
            names=list(self.names),
        )


View = Moments | Cloud


def points_view(positions: np.ndarray, axes: Sequence[str] = ()) -> Cloud:
    """Draw tokens as points at their positions (N, P).

    The order of axes is that of an array: the last one points right, the one before down, the third from the end away
    from the viewer. Axes named x, y, z point right, up and to the viewer.
    """
    places = np.zeros((len(positions), 3), np.float32)
    if tuple(axes) == ("x", "y", "z")[: len(axes)] and len(axes) > 0:
        places[:, : len(axes)] = positions
    else:
        last = positions[:, ::-1][:, :3]
        places[:, : last.shape[1]] = last * (1, -1, -1)[: last.shape[1]]
    return Cloud(places, np.arange(len(places)), places)


def _as_url(pixels: np.ndarray) -> str:
    from PIL import Image

    buffer = io.BytesIO()
    exact = max(pixels.shape[:2]) <= SMALL or len(np.unique(pixels @ np.array([1, 256, 65536]))) <= FEW
    kind, options = ("PNG", dict(optimize=True)) if exact else ("JPEG", dict(quality=90))
    Image.fromarray(pixels).save(buffer, kind, **options)
    return f"data:image/{kind.lower()};base64,{base64.b64encode(buffer.getvalue()).decode()}"


def encode_array(values: np.ndarray, kind: str) -> str:
    """Encode the values as base64 of a numpy type such as '<f4', without shape."""
    return base64.b64encode(np.ascontiguousarray(values).astype(kind).tobytes()).decode()
