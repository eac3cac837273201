"""Sizes of event cameras' sensors, (height, width): by their names, or by the events where a file names none."""

import re
import warnings
from pathlib import Path

import numpy as np

Size = tuple[int, int]

JAER: dict[str, Size] = {  # what jAER and cAER call their cameras begins with, in lower case
    "dvs128": (128, 128),
    "tmpdiff128": (128, 128),
    "davis128": (128, 128),
    "davis208": (192, 208),
    "davis240": (180, 240),
    "dvs240": (180, 240),
    "sbret": (180, 240),
    "davis346": (260, 346),
    "davi346": (260, 346),  # as some programs write it
    "davis640": (480, 640),
}
PROPHESEE: tuple[Size, ...] = ((240, 304), (320, 320), (480, 640), (720, 1280))
KNOWN: tuple[Size, ...] = tuple(
    sorted({(34, 34), (240, 320), *JAER.values(), *PROPHESEE}, key=lambda one: one[0] * one[1])
)
NEARLY = 0.97  # of both sides of a sensor, which nearly all recordings of it reach


def named(name: str) -> Size | None:
    """Of a camera's name, as DAVIS240C, or that of a class of jAER's, as eu.seebetter.ini.chips.davis.DAVIS240C."""
    called = name.strip().rpartition(".")[2].lower()
    return next((size for begin, size in JAER.items() if called.startswith(begin)), None)


def reached(x: np.ndarray, y: np.ndarray) -> Size:
    return int(y.max(initial=0)) + 1, int(x.max(initial=0)) + 1


def smallest(size: Size, sensors: tuple[Size, ...]) -> Size | None:
    """The smallest of some sensors that holds an area."""
    return next((one for one in sensors if size[0] <= one[0] and size[1] <= one[1]), None)


def assumed(path: Path, size: Size, sensors: tuple[Size, ...]) -> Size:
    """The smallest of some sensors on which all events lie, said aloud; a ValueError where there is none."""
    found = smallest(size, sensors)
    if found is None:
        raise ValueError(
            f"it does not say the size of its sensor, and its events reach to {size[0]} x {size[1]} pixels"
        )
    warnings.warn(
        f"{path} does not name its sensor: {found[0]} x {found[1]} pixels are assumed, the smallest that holds its "
        "events; where that is wrong, save them as an .npz of x, y, t, p, height and width",
        stacklevel=3,
    )
    return found


def likely(size: Size) -> Size:
    """The smallest known sensor that events nearly fill, else what they reach: of tables, which have no header."""
    found = smallest(size, KNOWN)
    return found if found and size[0] >= NEARLY * found[0] and size[1] >= NEARLY * found[1] else size


def written(text: str) -> Size | None:
    """Where a text has it: '% Height 240' and '% Width 304', 'height=240;width=304' or '% geometry 1280x720'."""
    text = text.lower()
    both = re.search(r"geometry\D{0,3}(\d{1,5})x(\d{1,5})", text)
    width, height = re.search(r"width\W(\d{1,5})", text), re.search(r"height\W(\d{1,5})", text)
    if both:
        return checked(both[2], both[1])
    return checked(height[1], width[1]) if width and height else None


def checked(height: str | int, width: str | int) -> Size:
    """What a file says to be a size; a ValueError where it is none."""
    found = int(height), int(width)
    if not (0 < found[0] < 1 << 16 and 0 < found[1] < 1 << 16):
        raise ValueError(f"its header gives a sensor of {found[0]} x {found[1]} pixels")
    return found
