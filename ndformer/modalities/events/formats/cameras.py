"""Sensor sizes (height, width) of event cameras, by name or, where a file names none, by the events."""

import re
import warnings
from pathlib import Path

import numpy as np

Size = tuple[int, int]

JAER: dict[str, Size] = {  # by the first letters of the camera names of jAER and cAER, in lower case
    "dvs128": (128, 128),
    "tmpdiff128": (128, 128),
    "davis128": (128, 128),
    "davis208": (192, 208),
    "davis240": (180, 240),
    "dvs240": (180, 240),
    "sbret": (180, 240),
    "davis346": (260, 346),
    "davi346": (260, 346),  # a spelling of some programs
    "davis640": (480, 640),
}
PROPHESEE: tuple[Size, ...] = ((240, 304), (320, 320), (480, 640), (720, 1280))
SENSORS: tuple[Size, ...] = tuple(
    sorted({(34, 34), (240, 320), *JAER.values(), *PROPHESEE}, key=lambda size: size[0] * size[1])
)
NEARLY = 0.97  # share of both sides of a sensor that nearly all of its recordings reach


def size_by_name(name: str) -> Size | None:
    """Return the size for a camera name (DAVIS240C) or a jAER class (eu.seebetter.ini.chips.davis.DAVIS240C)."""
    key = name.strip().rpartition(".")[2].lower()
    return next((size for begin, size in JAER.items() if key.startswith(begin)), None)


def extent(x: np.ndarray, y: np.ndarray) -> Size:
    return int(y.max(initial=0)) + 1, int(x.max(initial=0)) + 1


def smallest(size: Size, sensors: tuple[Size, ...]) -> Size | None:
    """Return the smallest of some sensors that contains an area, or None."""
    return next((sensor for sensor in sensors if size[0] <= sensor[0] and size[1] <= sensor[1]), None)


def assume_size(path: Path, size: Size, sensors: tuple[Size, ...]) -> Size:
    """Return the smallest of some sensors that contains all events, with a warning; raise a ValueError without one."""
    sensor = smallest(size, sensors)
    if sensor is None:
        raise ValueError(
            f"it does not say the size of its sensor, and its events reach to {size[0]} x {size[1]} pixels"
        )
    warnings.warn(
        f"{path} does not name its sensor: {sensor[0]} x {sensor[1]} pixels are assumed, the smallest that holds its "
        "events; where that is wrong, save them as an .npz of x, y, t, p, height and width",
        stacklevel=3,
    )
    return sensor


def guess_size(size: Size) -> Size:
    """Guess the sensor of a table without header: the smallest one that events nearly fill, else their extent."""
    sensor = smallest(size, SENSORS)
    return sensor if sensor and size[0] >= NEARLY * sensor[0] and size[1] >= NEARLY * sensor[1] else size


def parse_size(text: str) -> Size | None:
    """Parse a size: '% Height 240' and '% Width 304', 'height=240;width=304' or '% geometry 1280x720'."""
    text = text.lower()
    both = re.search(r"geometry\D{0,3}(\d{1,5})x(\d{1,5})", text)
    width, height = re.search(r"width\W(\d{1,5})", text), re.search(r"height\W(\d{1,5})", text)
    if both:
        return check_size(both[2], both[1])
    return check_size(height[1], width[1]) if width and height else None


def check_size(height: str | int, width: str | int) -> Size:
    """Return a size that a file gives; raise a ValueError for an impossible one."""
    size = int(height), int(width)
    if not (0 < size[0] < 1 << 16 and 0 < size[1] < 1 << 16):
        raise ValueError(f"its header gives a sensor of {size[0]} x {size[1]} pixels")
    return size
