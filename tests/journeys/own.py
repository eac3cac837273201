"""What a newcomer has on the disk: photos of a phone, boxes of an annotation program, scans, clips."""

from collections.abc import Iterator
from pathlib import Path

import av
import numpy as np
from PIL import Image

SIDES = ("left", "right")
PARTS = ("floor", "wall", "thing")
TURNED = 6  # EXIF's word for: turn it a quarter to the right


def photo(path: Path, number: int, square: tuple[int, int, int] | None = None) -> None:
    """An upright picture of 80 x 64, stored as it lay in the phone, with a bright square at (x, y, size)."""
    pixels = np.random.default_rng(number).integers(0, 90, (80, 64, 3), np.uint8)
    if square:
        x, y, size = square
        pixels[y : y + size, x : x + size] = 230
    exif = Image.Exif()
    exif[0x0112], exif[0x010F] = TURNED, "Phone"
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).rotate(90, expand=True).save(path, exif=exif, quality=92)


def photos(home: Path, split: str, count: int, classes: tuple[str, ...] = SIDES, first: int = 0) -> None:
    """Class folders: the square is at one side or the other."""
    for at, name in enumerate(classes):
        for number in range(first, first + count):
            place = (4 if name == "left" else 40, 10 + number % 40, 20) if name in SIDES else None
            photo(home / split / name / f"IMG_{number:04}.jpg", 1000 * at + number, place)


def yolo(home: Path, split: str, count: int, first: int = 0) -> None:
    """Photos, and a text file beside each with its squares, in shares of the upright picture."""
    for number in range(first, first + count):
        x, y, size = number * 7 % 40, number * 11 % 50, 16 + number % 8
        photo(home / f"images/{split}/IMG_{number:04}.jpg", number, (x, y, size))
        text = home / f"labels/{split}/IMG_{number:04}.txt"
        text.parent.mkdir(parents=True, exist_ok=True)
        middle = ((x + size / 2) / 64, (y + size / 2) / 80, size / 64, size / 80)
        text.write_text(f"{number % 2} " + " ".join(f"{share:.6f}" for share in middle) + "\n")
    (home / "classes.txt").write_text("nut\nbolt\n")


def scene(path: Path, number: int) -> None:
    """A floor, a wall and something red: colours, and a label at every point."""
    rng = np.random.default_rng(number)
    label = rng.integers(0, 3, 900)
    places = rng.random((900, 3)) * np.array([(2, 2, 0.01), (2, 0.01, 2), (0.3, 0.3, 0.3)])[label]
    names = [("x", "<f4"), ("y", "<f4"), ("z", "<f4"), ("red", "u1"), ("green", "u1"), ("blue", "u1"), ("label", "u1")]
    rows = np.zeros(900, names)
    rows["x"], rows["y"], rows["z"] = places.T
    rows["red"], rows["green"], rows["blue"], rows["label"] = 90 + 120 * (label == 2), 90, 90, label
    words = {"<f4": "float", "u1": "uchar"}
    properties = "".join(f"property {words[kind]} {name}\n" for name, kind in names)
    path.parent.mkdir(parents=True, exist_ok=True)
    head = f"ply\nformat binary_little_endian 1.0\nelement vertex 900\n{properties}end_header\n"
    path.write_bytes(head.encode() + rows.tobytes())


def moving(side: str, number: int) -> Iterator[np.ndarray]:
    """A bright square on its way to one side."""
    for i in range(44):
        frame = np.full((48, 64, 3), 30 + number, np.uint8)
        at = i if side == "right" else 44 - i
        frame[16:32, at : at + 16] = 200
        yield frame


def clip(path: Path, side: str, number: int) -> None:
    """An .mp4, as phones and editors write them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with av.open(str(path), "w") as file:
        stream = file.add_stream("mpeg4", rate=25)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        for frame in moving(side, number):
            file.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format="rgb24")))
        file.mux(stream.encode())


def clips(home: Path, split: str, count: int, first: int = 0) -> None:
    for side in SIDES:
        for number in range(first, first + count):
            clip(home / split / side / f"VID_{number}.mp4", side, number)
