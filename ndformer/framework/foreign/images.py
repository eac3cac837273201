"""A safe reader of images of known formats, within the memory limit: upright, 8 bits, on a white background."""

from __future__ import annotations

import contextlib
import io
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from ndformer.framework.errors import DataError
from ndformer.framework.foreign.files import check_size, content
from ndformer.framework.foreign.mounts import raw

if TYPE_CHECKING:
    from PIL import Image, ImageFile

# decoders that start no other program (EPS starts Ghostscript)
FORMATS = ("JPEG", "PNG", "BMP", "WEBP", "PPM", "TIFF", "GIF", "AVIF", "HEIF")
PICTURES = (".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".bmp", ".webp", ".ppm", ".pgm", ".pbm", ".pnm", ".tif", ".tiff")
PICTURES += (".gif", ".avif", ".heic", ".heif", ".hif")  # file name endings
HEVC = {b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx"}  # HEIF brands coded with H.265, as photos of phones are
BYTES_PER_PIXEL = 8  # bytes that one takes: decoded, and once more as it is wanted
MAX_SIDE = 2**20  # pixels: resizing takes memory for each of a side, whatever the other
MAX_SCAN_PIXELS = 2**34  # pixels of a progressive JPEG, over all its scans: some seconds
MAX_TEXT_PIXELS = 2**22  # pixels of a plain PPM, each of them words that Pillow reads in Python: some seconds
MAX_READS = 2**20  # of parts of a file
MAX_TAG_NUMBERS, BYTES = 2**20, (1, 2, 6, 7)  # of a TIFF's tag, but those of a byte each, which stay bytes
MAX_EXIF_BYTES = 2**20  # bytes; cameras write some thousand
ORIENTATION = 274  # of EXIF
MODES_16_BIT = ("I", "I;16", "I;16L", "I;16B", "I;16N")  # gray in 16 bits


@contextlib.contextmanager
def image(path: Path) -> Iterator[ImageFile.ImageFile]:
    """Open an image of one of FORMATS by its content, without reading its pixels, after checking its size.

    Errors in the body, for example of a damaged file, become DataError.
    """
    try:
        stream = raw(path)
        with _MeteredBytes(stream.getvalue()) if isinstance(stream, io.BytesIO) else _MeteredFile(stream) as file:
            opened = _open(file, path)
            check_pixels(path, opened.width, opened.height)
            if max(opened.size) > MAX_SIDE:
                raise ValueError(f"it has a side of {max(opened.size)} pixels, more than {MAX_SIDE}")
            _check_decoding_time(path, opened)
            yield opened
    except FileNotFoundError:
        raise DataError(f"{path} is missing: get the dataset again, or give another file") from None
    except DataError:
        raise
    except Exception as error:  # decoders raise anything, from SyntaxError to struct.error
        why = " ".join(str(error).split()) or type(error).__name__
        raise DataError(f"{path} cannot be read as an image ({why}): replace it or take it away") from None


def picture(path: Path, mode: str = "RGB", size: tuple[int, int] | None = None) -> Image.Image:
    """Read an image, upright and on white, in `mode` RGB or L.

    `size` is the (width, height) that annotations refer to. If only the stored image has that size, it is not rotated
    by its EXIF orientation.
    """
    with image(path) as opened:
        return normalized_image(opened, mode, size)


def normalized_image(opened: Image.Image, mode: str = "RGB", size: tuple[int, int] | None = None) -> Image.Image:
    """Convert an opened Pillow image as picture() does."""
    turn = _orientation(opened)
    opened.load()  # a truncated file fails here
    converted = (_to_8_bits if opened.mode in (*MODES_16_BIT, "F") else _on_white)(opened, mode)
    upright = _turned(converted, turn)
    return converted if size not in (None, upright.size) and size == converted.size else upright


def image_size(path: Path) -> tuple[int, int]:
    """Return (width, height) of picture(path), reading only the header."""
    with image(path) as opened:
        width, height = opened.size
        return (height, width) if _orientation(opened) >= 5 else (width, height)


def check_pixels(path: Path | str, width: int, height: int) -> None:
    """Raise DataError if an image of that size would exceed the memory limit."""
    check_size(path, BYTES_PER_PIXEL * width * height)


class _MeteredReader(io.BufferedIOBase):
    """A file with a limited number of reads: Pillow parses each part of a file in Python."""

    reads_left = MAX_READS

    def read(self, size: int | None = -1, /) -> bytes:
        self.reads_left -= 1
        if self.reads_left < 0:
            raise ValueError(f"it has more than {MAX_READS} parts")
        return super().read(size)


class _MeteredFile(_MeteredReader, io.BufferedReader):
    pass


class _MeteredBytes(_MeteredReader, io.BytesIO):
    """The content of a file in a shard; io.BufferedReader would copy it and take longer to make."""


def _open(file: BinaryIO, path: Path) -> ImageFile.ImageFile:
    """Open an image like Image.open, without Pillow's size limits: check_pixels() applies ours."""
    from PIL import Image

    begin = file.read(64)
    if begin[4:8] == b"ftyp":
        file.seek(0)
        return _heif_opener(begin)(file, str(path))
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


def _heif_opener(begin: bytes) -> Any:
    """Return the Pillow plugin for an AVIF or HEIC file, chosen by its brands: both are HEIF containers."""
    from PIL import Image

    size = struct.unpack(">L", begin[:4])[0]
    brands = {begin[i : i + 4] for i in range(8, min(size, len(begin)), 4)}
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
    """Raise ValueError for a TIFF with huge tags: each number and strip becomes a Python object."""
    order = "<" if begin[:2] == b"II" else ">"
    big = struct.unpack(order + "H", begin[2:4])[0] == 43
    offset, number, entry = ("Q", "Q", "HHQ8x") if big else ("L", "H", "HHL4x")
    start = 8 if big else 4
    file.seek(struct.unpack(order + offset, begin[start : start + struct.calcsize(order + offset)])[0])
    entries = struct.unpack(order + number, file.read(struct.calcsize(order + number)))[0]
    table = file.read(min(entries, 2**16) * struct.calcsize(order + entry))
    table = table[: len(table) // struct.calcsize(order + entry) * struct.calcsize(order + entry)]
    if any(
        count > MAX_TAG_NUMBERS and kind not in BYTES for _, kind, count in struct.iter_unpack(order + entry, table)
    ):
        raise ValueError(f"it has a tag of more than {MAX_TAG_NUMBERS} numbers")


def _check_decoding_time(path: Path, opened: ImageFile.ImageFile) -> None:
    """Raise ValueError for images that decode slowly: many progressive scans, or many pixels as text."""
    pixels = opened.width * opened.height
    if opened.info.get("progressive") and content(path).count(b"\xff\xda") * pixels > MAX_SCAN_PIXELS:
        raise ValueError("it is a progressive JPEG of too many scans")
    if opened.tile and opened.tile[0][0] == "ppm_plain" and pixels > MAX_TEXT_PIXELS:
        raise ValueError(f"it has more than {MAX_TEXT_PIXELS} pixels as text")


def _orientation(opened: Image.Image) -> int:
    """Return the EXIF orientation, 1 to 8, or 1 if unreadable. Pillow applies that of TIFF, libheif that of HEIF."""
    from PIL import Image

    if opened.format in ("TIFF", "HEIF") or len(opened.info.get("exif", b"")) > MAX_EXIF_BYTES:
        return 1
    try:
        value = Image.Image.getexif(opened).get(ORIENTATION)  # the PNG plugin's getexif would decode the image first
    except Exception:  # a damaged EXIF table does not make the image unreadable
        return 1
    return value if isinstance(value, int) and 1 <= value <= 8 else 1


def _turned(converted: Image.Image, orientation: int) -> Image.Image:
    from PIL.Image import Transpose as T

    ways = (T.FLIP_LEFT_RIGHT, T.ROTATE_180, T.FLIP_TOP_BOTTOM, T.TRANSPOSE, T.ROTATE_270, T.TRANSVERSE, T.ROTATE_90)
    return converted if orientation == 1 else converted.transpose(ways[orientation - 2])


def _on_white(opened: Image.Image, mode: str) -> Image.Image:
    """Convert an image to `mode`, with a white background where it is transparent."""
    from PIL import Image

    if "transparency" not in opened.info and opened.mode not in ("RGBA", "LA", "PA", "RGBa", "La"):
        return opened.convert(mode)
    covering, paper = opened.convert("RGBA"), Image.new("RGB", opened.size, "white")
    paper.paste(covering, mask=covering)
    return paper if mode == "RGB" else paper.convert(mode)


def _to_8_bits(opened: Image.Image, mode: str) -> Image.Image:
    """Convert a 16-bit image (white is 65535) or a float image (white is 1.0) to 8 bits and to `mode`."""
    from PIL import Image, ImageFile

    values = np.array(opened)
    white = 1.0 if opened.mode == "F" else 65535
    low, high = values.min(), values.max()
    if not (low >= 0 and high <= white):
        name = opened.filename if isinstance(opened, ImageFile.ImageFile) else "a picture"
        raise DataError(
            f"{name} has numbers from {low:g} to {high:g}, and a picture of this kind from 0 to {white:g}: write it "
            "with 8 bits"
        )
    if opened.mode == "F":
        values *= 255
        values += 0.5
    else:  # round to the nearest multiple of 257
        values = values.astype(np.int32)
        values += 128
        values //= 257
    return Image.fromarray(values.astype(np.uint8)).convert(mode)
