"""Images are upright and on white, read quickly in bounded memory, or an error."""

import io
import struct
import sys
import time
import warnings
import zlib
from typing import Any, cast

import numpy as np
import pytest
from PIL import Image, PngImagePlugin, features

from ndformer.framework import foreign
from ndformer.framework.errors import DataError
from ndformer.framework.foreign import images
from tests.framework.helpers import HEIC

RNG = np.random.default_rng(0)
GRAY = RNG.integers(0, 256, (12, 20), dtype=np.uint8)
COLORS = RNG.integers(0, 256, (12, 20, 3), dtype=np.uint8)
SHARE = RNG.integers(0, 256, (12, 20), dtype=np.uint8)


def read(path, mode="RGB", **size):
    return np.asarray(foreign.picture(path, mode, **size))


def on_white(colors, share):
    """Blend colors with white by alpha."""
    share = share[..., None] / 255
    return colors * share + 255 * (1 - share)


def chunk(name, data):
    return struct.pack(">L", len(data)) + name + data + struct.pack(">L", zlib.crc32(name + data))


def png(kind, depth, rows, *chunks):
    """Write a PNG as a program other than Pillow might."""
    height, width = rows.shape[:2]
    head = chunk(b"IHDR", struct.pack(">LLBBBBB", width, height, depth, kind, 0, 0, 0))
    body = b"".join(b"\0" + row.tobytes() for row in rows)
    middle = b"".join(chunk(*one) for one in chunks)
    return b"\x89PNG\r\n\x1a\n" + head + middle + chunk(b"IDAT", zlib.compress(body)) + chunk(b"IEND", b"")


@pytest.mark.parametrize("ending", ["jpg", "png", "bmp", "webp", "ppm", "tif", "gif"])
@pytest.mark.parametrize("pixels", [GRAY, COLORS], ids=["gray", "colors"])
@pytest.mark.parametrize("mode", ["RGB", "L"])
def test_ordinary_pictures_are_what_pillow_decodes_to_the_bit(tmp_path, ending, pixels, mode):
    path = tmp_path / f"a.{ending}"
    Image.fromarray(pixels).save(path)
    with Image.open(path) as plain:
        np.testing.assert_array_equal(read(path, mode), np.asarray(plain.convert(mode)))


def test_gray_of_16_bits_is_scaled_to_8(tmp_path):
    values = RNG.integers(0, 2**16, (12, 20), dtype=np.uint16)
    values[0, :3] = 0, 257, 65535
    (tmp_path / "a.png").write_bytes(png(0, 16, values.astype(">u2")))
    Image.fromarray(values).save(tmp_path / "a.tif")
    Image.fromarray(values.astype(np.int32)).save(tmp_path / "b.tif")
    (tmp_path / "a.pgm").write_bytes(b"P5 20 12 65535\n" + values.astype(">u2").tobytes())
    expected = np.floor(values / 257 + 0.5)
    for name in ("a.png", "a.tif", "b.tif", "a.pgm"):
        np.testing.assert_array_equal(read(tmp_path / name, "L"), expected, name)
        np.testing.assert_array_equal(read(tmp_path / name), np.repeat(expected[..., None], 3, 2), name)


def test_floats_are_from_0_to_1_and_others_are_a_sentence(tmp_path):
    values = RNG.random((12, 20)).astype(np.float32)
    Image.fromarray(values).save(tmp_path / "a.tif")
    assert np.abs(read(tmp_path / "a.tif", "L") - values * 255.0).max() <= 0.5 + 1e-4
    for wrong in (2.0, -1.0, np.nan):
        Image.fromarray(np.full((4, 4), wrong, np.float32)).save(tmp_path / "b.tif")
        with pytest.raises(DataError, match="b.tif has numbers from .* of this kind from 0 to 1: write it with 8 bits"):
            read(tmp_path / "b.tif")


def test_palettes_and_bits_are_their_colors(tmp_path):
    palette = RNG.integers(0, 256, (256, 3), dtype=np.uint8)
    (tmp_path / "a.png").write_bytes(png(3, 8, GRAY, (b"PLTE", palette.tobytes())))
    np.testing.assert_array_equal(read(tmp_path / "a.png"), palette[GRAY])
    bits = GRAY > 127
    Image.fromarray(bits).save(tmp_path / "b.png")
    np.testing.assert_array_equal(read(tmp_path / "b.png", "L"), bits * 255)


def test_what_is_transparent_shows_white_paper(tmp_path):
    palette = RNG.integers(0, 256, (256, 3), dtype=np.uint8)
    clear = RNG.integers(0, 256, 256, dtype=np.uint8)
    key = struct.pack(">HHH", *COLORS[0, 0].tolist())
    alike = (COLORS[0, 0] == COLORS).all(2)
    made = {
        "rgba": (png(6, 8, np.dstack([COLORS, SHARE])), on_white(COLORS, SHARE)),
        "la": (png(4, 8, np.dstack([GRAY, SHARE])), on_white(np.dstack([GRAY] * 3), SHARE)),
        "palette": (
            png(3, 8, GRAY, (b"PLTE", palette.tobytes()), (b"tRNS", clear.tobytes())),
            on_white(palette[GRAY], clear[GRAY]),
        ),
        "key": (png(2, 8, COLORS, (b"tRNS", key)), np.where(alike[..., None], 255, COLORS)),
    }
    for name, (content, expected) in made.items():
        path = tmp_path / f"{name}.png"
        path.write_bytes(content)
        assert np.abs(read(path).astype(float) - expected).max() <= 1, name
    opaque = tmp_path / "opaque.png"
    opaque.write_bytes(png(6, 8, np.dstack([COLORS, np.full_like(SHARE, 255)])))
    np.testing.assert_array_equal(read(opaque), COLORS)


@pytest.mark.parametrize("ending", ["tif", "jpg"])
def test_inks_are_colors_also_where_adobe_wrote_them_inverted(tmp_path, ending):
    """A JPEG with Adobe's marker has inks inverted, as Pillow writes it; a TIFF has not."""
    inks = np.zeros((16, 16, 4), np.uint8)
    inks[:8, :, 0], inks[8:, :, 3] = 255, 255  # cyan above black
    path = tmp_path / f"a.{ending}"
    Image.fromarray(inks, "CMYK").save(path, **cast(Any, {"quality": 95} if ending == "jpg" else {}))
    assert (ending == "tif") or b"Adobe" in path.read_bytes()
    found = read(path).astype(int)
    assert np.abs(found[2:6, 2:14] - (0, 255, 255)).max() <= 4
    assert found[10:14, 2:14].max() <= 4


def turned(pixels, orientation):
    """Turn an image by the EXIF specification."""
    ways = {
        1: lambda x: x,
        2: lambda x: x[:, ::-1],
        3: lambda x: x[::-1, ::-1],
        4: lambda x: x[::-1],
        5: lambda x: x.swapaxes(0, 1),
        6: lambda x: x.swapaxes(0, 1)[:, ::-1],
        7: lambda x: x.swapaxes(0, 1)[::-1, ::-1],
        8: lambda x: x.swapaxes(0, 1)[::-1],
    }
    return ways[orientation](pixels)


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("ending", ["png", "webp", "tif", "jpg"])
def test_pictures_are_upright_whatever_way_the_camera_was_held(tmp_path, ending, orientation):
    path, exif = tmp_path / f"a.{ending}", Image.Exif()
    exif[274] = orientation
    Image.fromarray(COLORS).save(path, exif=exif, **cast(Any, {"lossless": True} if ending == "webp" else {}))
    bare = tmp_path / f"b.{ending}"
    Image.fromarray(COLORS).save(bare, **cast(Any, {"lossless": True} if ending == "webp" else {}))
    expected = turned(read(bare), orientation)
    np.testing.assert_array_equal(read(path), expected)
    assert foreign.image_size(path) == (expected.shape[1], expected.shape[0])


def test_annotations_of_the_stored_picture_have_the_stored_picture(tmp_path):
    exif = Image.Exif()
    exif[274] = 6
    Image.fromarray(COLORS).save(tmp_path / "a.png", exif=exif)
    np.testing.assert_array_equal(read(tmp_path / "a.png", size=(20, 12)), COLORS)
    for size in ((12, 20), (7, 7), None):
        np.testing.assert_array_equal(read(tmp_path / "a.png", size=size), turned(COLORS, 6))


def test_a_damaged_exif_is_no_reason_to_give_up_a_picture(tmp_path):
    for i, exif in enumerate((b"Exif\0\0II*\0\xff\xff\xff\xff", b"Exif\0\0", b"\0" * 2**21)):
        path = tmp_path / f"{i}.png"
        path.write_bytes(png(2, 8, COLORS, (b"eXIf", exif.removeprefix(b"Exif\0\0"))))
        np.testing.assert_array_equal(read(path), COLORS)


CORNERS = np.array([[(40, 40, 200), (200, 40, 40)], [(220, 220, 60), (40, 200, 40)]])  # of it, upright


def decoded_by_ffmpeg(path):
    av = pytest.importorskip("av")
    with av.open(str(path)) as container:
        return next(container.decode(video=0)).to_ndarray(format="rgb24")


@pytest.mark.skipif(not features.check("avif"), reason="Pillow before 11.3")
@pytest.mark.parametrize("orientation", range(1, 9))
def test_avif_is_upright_and_what_ffmpeg_decodes(tmp_path, orientation):
    path, exif = tmp_path / "a.avif", Image.Exif()
    exif[274] = orientation
    smooth = np.kron(RNG.integers(40, 216, (3, 5, 3)), np.ones((8, 8, 1))).astype(np.uint8)
    Image.fromarray(smooth).save(path, exif=exif, quality=95, subsampling="4:4:4")
    found = read(path)
    assert foreign.image_size(path) == (found.shape[1], found.shape[0])
    seen = decoded_by_ffmpeg(path).astype(int)  # as it is stored
    assert np.abs(found - turned(seen, orientation)).mean() < 2
    assert np.abs(found - turned(smooth.astype(int), orientation)).mean() < 6


def test_a_photo_of_a_phone_is_upright(tmp_path):
    pytest.importorskip("pi_heif")
    path = tmp_path / "a.heic"
    path.write_bytes(HEIC)
    found = read(path).astype(int)
    assert found.shape == (48, 32, 3)
    assert foreign.image_size(path) == (32, 48)
    assert np.abs(found[[8, 8, -8, -8], [8, -8, 8, -8]] - CORNERS.reshape(4, 3)).max() < 12


def test_what_other_packages_read_names_them(tmp_path, monkeypatch):
    (tmp_path / "a.heic").write_bytes(HEIC)
    monkeypatch.setitem(sys.modules, "pi_heif.as_plugin", None)
    with pytest.raises(DataError, match=r"a.heic cannot be read .*HEIC, which takes pi-heif.*'ndformer\[heic\]'"):
        foreign.picture(tmp_path / "a.heic")
    (tmp_path / "a.avif").write_bytes(b"\0\0\0\x14ftypavif\0\0\0\0mif1")
    Image.init()
    monkeypatch.delitem(Image.OPEN, "AVIF", raising=False)
    with pytest.raises(DataError, match=r"a.avif cannot be read .*takes Pillow 11.3"):
        foreign.picture(tmp_path / "a.avif")
    (tmp_path / "a.mp4").write_bytes(b"\0\0\0\x14ftypisom\0\0\0\0mp42")
    with pytest.raises(DataError, match="it is none of JPEG"):
        foreign.picture(tmp_path / "a.mp4")


# ------------------------------------------------------------------------------------------------------------- bombs


def progressive(scans):
    """Return a JPEG that repeats its last scan."""
    file = io.BytesIO()
    Image.fromarray(np.zeros((64, 64), np.uint8)).save(file, "jpeg", progressive=True)
    content = file.getvalue()
    last = content[content.rindex(b"\xff\xda") : -2]
    return content[:-2] + scans * last + b"\xff\xd9"


def tiff_of_many_numbers():
    entries = [(256, 4, 1, 8), (257, 4, 1, 8), (273, 4, 2**22, 64)]
    table = b"".join(struct.pack("<HHLL", *one) for one in entries)
    return b"II*\0" + struct.pack("<LH", 8, len(entries)) + table + b"\0" * 4


BOMBS = {
    "pixels.png": (png(2, 8, np.zeros((0, 60_000, 3), np.uint8)), "cannot be read"),
    "large.png": (
        png(0, 8, np.zeros((1, 1), np.uint8)).replace(struct.pack(">LL", 1, 1), struct.pack(">LL", 30_000, 30_000), 1),
        "cannot be read|would take 6,866 MiB",
    ),
    "scans.jpg": (progressive(300), "too many scans"),
    "numbers.tif": (tiff_of_many_numbers(), "a tag of more than 1048576 numbers"),
    "words.ppm": (b"P3 3000 3000 255\n" + b"0 " * 100, "more than 4194304 pixels as text"),
    "comment.ppm": (b"P5 " + b"#" * 100_000, "parts"),
    "segments.jpg": (b"\xff\xd8" + b"\xff\xfe\0\2" * 50_000, "parts"),
    "half.png": (png(2, 8, COLORS)[:-200], "cannot be read as an image"),
    "none.jpg": (b"not a picture", "it is none of JPEG"),
    "empty.jpg": (b"", "it is empty"),
}


@pytest.mark.parametrize("name", BOMBS)
def test_what_is_small_and_becomes_large_or_slow_is_a_sentence(tmp_path, name, monkeypatch):
    monkeypatch.setattr(images, "MAX_SCAN_PIXELS", 64 * 64 * 100)
    monkeypatch.setattr(images._MeteredReader, "reads_left", 2**14)
    content, sentence = BOMBS[name]
    (tmp_path / name).write_bytes(content)
    begin = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # of Pillow's, of bombs: it is a sentence of ours or nothing
        with pytest.raises(DataError, match=sentence):
            foreign.picture(tmp_path / name)
    assert time.perf_counter() - begin < 5


def test_the_limit_is_one_of_memory_and_can_be_raised(tmp_path, monkeypatch):
    Image.fromarray(COLORS).save(tmp_path / "a.png")
    monkeypatch.setenv("NDFORMER_FILE_LIMIT", "1K")
    with pytest.raises(DataError, match="a.png would take 0 MiB of memory, and one file may take 0") as told:
        foreign.picture(tmp_path / "a.png")
    assert told.value.option == "--file-limit 4G allows more"
    with pytest.raises(DataError, match="would take"), foreign.image(tmp_path / "a.png"):
        pass
    with pytest.raises(DataError, match="would take"):
        foreign.image_size(tmp_path / "a.png")
    monkeypatch.setenv("NDFORMER_FILE_LIMIT", "1M")
    np.testing.assert_array_equal(read(tmp_path / "a.png"), COLORS)


def test_a_text_that_unpacks_to_a_bomb_is_a_sentence(tmp_path):
    about = PngImagePlugin.PngInfo()
    about.add_text("story", "0" * 10_000_000, zip=True)
    Image.fromarray(COLORS).save(tmp_path / "a.png", pnginfo=about)
    with pytest.raises(DataError, match="a.png cannot be read as an image .*too large"):
        foreign.picture(tmp_path / "a.png")


def test_a_side_that_no_camera_has_is_a_sentence(tmp_path):
    """Resizing takes memory for each pixel of a side."""
    Image.new("1", (2**20 + 1, 1)).save(tmp_path / "a.png")
    with pytest.raises(DataError, match="it has a side of 1048577 pixels, more than 1048576"):
        read(tmp_path / "a.png")
