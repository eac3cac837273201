"""Pictures of known formats, of a bounded size, as people see them: upright, 8 bits, on white."""

from __future__ import annotations

import contextlib
import io
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from ndformer.framework.errors import DataError
from ndformer.framework.foreign.files import check_size, content, regular

if TYPE_CHECKING:
    from PIL import Image, ImageFile

# decoders that start no program: EPS starts Ghostscript
FORMATS = ("JPEG", "PNG", "BMP", "WEBP", "PPM", "TIFF", "GIF", "AVIF", "HEIF")
PICTURES = (".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".bmp", ".webp", ".ppm", ".pgm", ".pbm", ".pnm", ".tif", ".tiff")
PICTURES += (".gif", ".avif", ".heic", ".heif", ".hif")  # endings of their names
HEVC = {b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx"}  # brands of HEIF whose pictures are H.265: phones' photos
PIXEL = 8  # bytes that one takes: decoded, and once more as it is wanted
SIDE = 2**20  # pixels: resizing takes memory for each of a side, whatever the other
SCANS = 2**34  # pixels of a progressive JPEG, over all its scans: some seconds
WORDS = 2**22  # pixels of a plain PPM, each of them words that Pillow reads in Python: some seconds
READS = 2**20  # of parts of a file
NUMBERS, BYTES = 2**20, (1, 2, 6, 7)  # of a TIFF's tag, but those of a byte each, which stay bytes
EXIF = 2**20  # bytes; cameras write some thousand
ORIENTATION = 274  # of EXIF
WIDE = ("I", "I;16", "I;16L", "I;16B", "I;16N")  # grey in 16 bits


@contextlib.contextmanager
def image(path: Path) -> Iterator[ImageFile.ImageFile]:
    """A picture of one of FORMATS, whatever its name says, whose pixels are not read yet; few enough to be read.

    It is decided by its head. What goes wrong inside, by a damaged file, is a DataError.
    """
    try:
        with _Metered(io.FileIO(regular(path))) as file:
            found = _begun(file, path)
            check_pixels(path, found.width, found.height)
            if max(found.size) > SIDE:
                raise ValueError(f"it has a side of {max(found.size)} pixels, more than {SIDE}")
            _check_time(path, found)
            yield found
    except FileNotFoundError:
        raise DataError(f"{path} is missing: get the dataset again, or give another file") from None
    except DataError:
        raise
    except Exception as error:  # decoders raise anything, from SyntaxError to struct.error
        why = " ".join(str(error).split()) or type(error).__name__
        raise DataError(f"{path} cannot be read as an image ({why}): replace it or take it away") from None


def picture(path: Path, mode: str = "RGB", size: tuple[int, int] | None = None) -> Image.Image:
    """A picture as people see it, in `mode`, RGB or L.

    `size` is the width and height that annotations speak of: where only the picture as it is stored has it, the picture
    is not turned, for then they do not speak of the one that is seen.
    """
    with image(path) as found:
        return as_seen(found, mode, size)


def as_seen(found: Image.Image, mode: str = "RGB", size: tuple[int, int] | None = None) -> Image.Image:
    """The same of a picture that Pillow has opened."""
    turn = _orientation(found)
    found.load()  # reads all of it: a truncated file fails here
    seen = (_of_8_bits if found.mode in (*WIDE, "F") else _on_white)(found, mode)
    upright = _turned(seen, turn)
    return seen if size not in (None, upright.size) and size == seen.size else upright


def size_of(path: Path) -> tuple[int, int]:
    """Width and height of picture(path), from the head of the file alone."""
    with image(path) as found:
        width, height = found.size
        return (height, width) if _orientation(found) >= 5 else (width, height)


def check_pixels(path: Path | str, width: int, height: int) -> None:
    """Raise a DataError where a picture of that size would take more memory than one file may."""
    check_size(path, PIXEL * width * height)


class _Metered(io.BufferedReader):
    """A file that is not read in endless small parts: Pillow goes through them in Python."""

    left = READS

    def read(self, size: int | None = -1, /) -> bytes:
        self.left -= 1
        if self.left < 0:
            raise ValueError(f"it has more than {READS} parts")
        return super().read(size)


def _begun(file: BinaryIO, path: Path) -> ImageFile.ImageFile:
    """What Image.open does, without its limits, which are warnings at first and could not be raised: ours come next."""
    from PIL import Image

    begin = file.read(64)
    if begin[4:8] == b"ftyp":
        file.seek(0)
        return _in_boxes(begin)(file, str(path))
    for name in FORMATS[:-2]:
        if name not in Image.OPEN:
            Image.init()
        make, accepts = Image.OPEN[name]
        if accepts is not None and accepts(begin) is True:
            if name == "TIFF":
                _check_tags(file, begin)
            file.seek(0)
            return make(file, str(path))
    if not begin:
        raise ValueError("it is empty")
    raise ValueError(f"it is none of {', '.join(FORMATS)}")


def _in_boxes(begin: bytes) -> Any:
    """What opens AVIF, or HEIC: both are HEIF, boxes that begin with the brands of what is in them."""
    from PIL import Image

    size = struct.unpack(">L", begin[:4])[0]
    brands = {begin[at : at + 4] for at in range(8, min(size, len(begin)), 4)}
    if b"avif" in brands or b"avis" in brands:
        Image.init()
        if "AVIF" not in Image.OPEN:
            raise ValueError("it is AVIF, which takes Pillow 11.3 or newer, pip install 'pillow>=11.3'")
        return Image.OPEN["AVIF"][0]
    if brands & HEVC:
        try:
            from pi_heif.as_plugin import HeifImageFile  # pyright: ignore[reportMissingImports]
        except ImportError:
            raise ValueError("it is HEIC, which takes pi-heif, pip install 'ndformer[heic]'") from None
        return HeifImageFile
    raise ValueError(f"it is none of {', '.join(FORMATS)}")


def _check_tags(file: BinaryIO, begin: bytes) -> None:
    """Each number of a TIFF's tags, and each of its strips, becomes an object of Python."""
    order = "<" if begin[:2] == b"II" else ">"
    big = struct.unpack(order + "H", begin[2:4])[0] == 43
    at, number, entry = ("Q", "Q", "HHQ8x") if big else ("L", "H", "HHL4x")
    start = 8 if big else 4
    file.seek(struct.unpack(order + at, begin[start : start + struct.calcsize(order + at)])[0])
    entries = struct.unpack(order + number, file.read(struct.calcsize(order + number)))[0]
    table = file.read(min(entries, 2**16) * struct.calcsize(order + entry))
    table = table[: len(table) // struct.calcsize(order + entry) * struct.calcsize(order + entry)]
    if any(count > NUMBERS and kind not in BYTES for _, kind, count in struct.iter_unpack(order + entry, table)):
        raise ValueError(f"it has a tag of more than {NUMBERS} numbers")


def _check_time(path: Path, found: ImageFile.ImageFile) -> None:
    """Few scans and few numbers in text, which take long though few bytes and pixels come of them."""
    pixels = found.width * found.height
    if found.info.get("progressive") and content(path).count(b"\xff\xda") * pixels > SCANS:
        raise ValueError("it is a progressive JPEG of too many scans")
    if found.tile and found.tile[0][0] == "ppm_plain" and pixels > WORDS:
        raise ValueError(f"it has more than {WORDS} pixels as text")


def _orientation(found: Image.Image) -> int:
    """How EXIF says that the camera was held, 1 to 8; 1 where it cannot be read. Pillow turns TIFF, libheif HEIF."""
    from PIL import Image

    if found.format in ("TIFF", "HEIF") or len(found.info.get("exif", b"")) > EXIF:
        return 1
    try:
        told = Image.Image.getexif(found).get(ORIENTATION)  # PNG's own would decode the picture first
    except Exception:  # of a damaged table, which is no reason to give up the picture
        return 1
    return told if isinstance(told, int) and 1 <= told <= 8 else 1


def _turned(seen: Image.Image, orientation: int) -> Image.Image:
    from PIL.Image import Transpose as T

    ways = (T.FLIP_LEFT_RIGHT, T.ROTATE_180, T.FLIP_TOP_BOTTOM, T.TRANSPOSE, T.ROTATE_270, T.TRANSVERSE, T.ROTATE_90)
    return seen if orientation == 1 else seen.transpose(ways[orientation - 2])


def _on_white(found: Image.Image, mode: str) -> Image.Image:
    """Where it is transparent, white paper shows through; what covers is as it was."""
    from PIL import Image

    if "transparency" not in found.info and found.mode not in ("RGBA", "LA", "PA", "RGBa", "La"):
        return found.convert(mode)
    covering, paper = found.convert("RGBA"), Image.new("RGB", found.size, "white")
    paper.paste(covering, mask=covering)
    return paper if mode == "RGB" else paper.convert(mode)


def _of_8_bits(found: Image.Image, mode: str) -> Image.Image:
    """White is 65535 of whole numbers and 1.0 of others; numbers beyond have no agreed white."""
    from PIL import Image, ImageFile

    values = np.array(found)
    white = 1.0 if found.mode == "F" else 65535
    low, high = values.min(), values.max()
    if not (low >= 0 and high <= white):
        name = found.filename if isinstance(found, ImageFile.ImageFile) else "a picture"
        raise DataError(
            f"{name} has numbers from {low:g} to {high:g}, and a picture of this kind from 0 to {white:g}: write it "
            "with 8 bits"
        )
    if found.mode == "F":
        values *= 255
        values += 0.5
    else:  # to the nearest of 256 steps of 257
        values = values.astype(np.int32)
        values += 128
        values //= 257
    return Image.fromarray(values.astype(np.uint8)).convert(mode)
