"""16-bit and turned pictures with boxes and masks: what an independent decoder sees, the same in every layout of data
sets and in every program: dataset, predict, peek and show_tokens."""

import struct
import zlib

import numpy as np
import pytest
from PIL import Image

from ndformer.framework.data.describe import describe
from ndformer.framework.engine.building import build_model
from ndformer.framework.engine.config.load import load
from ndformer.framework.engine.inputs import Preparation
from ndformer.framework.registry import DATASETS
from tests.framework.helpers import HEIC
from tests.modalities.image import layouts

HEIGHT, WIDTH = 48, 64  # upright
X1, Y1, X2, Y2 = 8, 4, 40, 20  # of the one object, bright on dark
SEEN = np.full((HEIGHT, WIDTH), 30, np.uint8)
SEEN[Y1:Y2, X1:X2] = 220
SEEN[-6:, -6:] = 130  # tells all eight ways apart


def stored(seen, orientation):
    """As a camera that was held so stores it: by EXIF's table, which side is the first row and the first column."""
    turned = seen.swapaxes(0, 1) if orientation >= 5 else seen
    rows, columns = {1: (1, 1), 2: (1, -1), 3: (-1, -1), 4: (-1, 1), 5: (1, 1), 6: (-1, 1), 7: (-1, -1), 8: (1, -1)}[
        orientation
    ]
    return np.ascontiguousarray(turned[::rows, ::columns])


def write_16_bits(path, seen):
    """A png by hand, of the same gray in 16 bits."""

    def chunk(name, data):
        return struct.pack(">L", len(data)) + name + data + struct.pack(">L", zlib.crc32(name + data))

    rows = (seen.astype(np.uint16) * 257).astype(">u2")
    head = chunk(b"IHDR", struct.pack(">LLBBBBB", seen.shape[1], seen.shape[0], 16, 0, 0, 0, 0))
    body = chunk(b"IDAT", zlib.compress(b"".join(b"\0" + row.tobytes() for row in rows)))
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + head + body + chunk(b"IEND", b""))


def write_turned(path, seen, orientation):
    exif = Image.Exif()
    exif[274] = orientation
    Image.fromarray(stored(seen, orientation)).save(path, exif=exif, quality=98)


def decoded(path):
    """By FFmpeg, which knows nothing of EXIF in files of one picture."""
    av = pytest.importorskip("av")
    with av.open(str(path)) as container:
        return next(container.decode(video=0)).to_ndarray(format="gray")


WRITERS = {
    "16 bits": ("a.png", write_16_bits),
    **{f"orientation {k}": ("a.jpg", lambda path, seen, k=k: write_turned(path, seen, k)) for k in range(1, 9)},
}


OBJECTS = dict(a=[("thing", (X1, Y1, X2, Y2))])


def coco(root, name, size):
    layouts.coco(root, sizes={}, objects=OBJECTS, ending=name[2:], claims=dict(a=size))
    return root / "train2017" / name


def voc(root, name, size):
    layouts.voc(root, sizes={}, objects=OBJECTS, claims=dict(a=size))
    return root / "JPEGImages" / name


def yolo(root, name, size):
    layouts.yolo(root, sizes={}, objects=OBJECTS, claims=dict(a=size), classes=["thing"])
    return root / "images" / "train" / name


def masks(root, name, size):
    (root / "masks" / "train").mkdir(parents=True)
    (root / "classes.txt").write_text("ground\nthing\n")
    Image.fromarray((SEEN == 220).astype(np.uint8)).save(root / "masks" / "train" / "a.png")
    return root / "images" / "train" / name


def classes(root, name, size):
    return root / "train" / "thing" / name


LAYOUTS = dict(Coco=coco, PascalVOC=voc, YoloFolder=yolo, MaskFolder=masks, ImageFolder=classes)
CONFIGS = dict.fromkeys(("Coco", "PascalVOC", "YoloFolder"), "custom_detection")
CONFIGS |= dict(MaskFolder="custom_segmentation", ImageFolder="imagefolder_pape")


@pytest.fixture(scope="module")
def prepared():
    """By the name of a config: what predict and show_tokens give a model of files."""
    made = {}

    def of(name):
        if name not in made:
            cfg = load(f"configs/{name}.py", ["weights=None", "model.head.classes=2"], None, True)
            made[name] = Preparation(cfg, build_model(cfg))
        return made[name]

    return of


def read(kind, root, transforms=()):
    given = dict(type=kind, data_root=root, transforms=transforms, val_is_test=True)
    return DATASETS.create(given)[0]


@pytest.mark.parametrize("kind", LAYOUTS)
@pytest.mark.parametrize("way", WRITERS)
def test_one_picture_for_all(tmp_path, prepared, way, kind):
    name, write = WRITERS[way]
    path = LAYOUTS[kind](tmp_path, name, (WIDTH, HEIGHT))
    path.parent.mkdir(parents=True, exist_ok=True)
    write(path, SEEN)
    sample = read(kind, tmp_path)
    pixels = np.asarray(sample["image"])
    assert pixels.shape == (HEIGHT, WIDTH, 3)
    assert np.abs(pixels.astype(int) - SEEN[..., None]).max() <= (0 if name == "a.png" else 24)
    raw = decoded(path).astype(int)
    expected = SEEN if name == "a.png" else stored(SEEN, int(way[-1]))
    assert np.abs(raw - expected).mean() < 3  # the writer is right
    if kind in ("Coco", "PascalVOC", "YoloFolder"):
        np.testing.assert_allclose(sample["boxes"], [[X1, Y1, X2, Y2]], atol=1e-9)
    if "mask" in sample:
        bright = pixels[..., 0] > 170
        assert (bright == (np.asarray(sample["mask"]) == 1)).mean() > 0.98
    described = describe(path, 1)
    assert (described["height"], described["width"]) == (HEIGHT, WIDTH)
    assert described["mean"] == pytest.approx(pixels.mean((0, 1)), abs=0.06)
    own = prepared(CONFIGS[kind])
    (steps,) = own.steps.values()
    given = own.sample((path,))["inputs"]["image"]
    np.testing.assert_array_equal(given, read(kind, tmp_path, steps)["inputs"]["image"])


@pytest.mark.parametrize("kind", ["Coco", "PascalVOC"])
@pytest.mark.parametrize("orientation", range(5, 9))
def test_images_annotated_as_stored_are_read_as_stored(tmp_path, kind, orientation):
    """Here the annotation's picture is the stored one: of its width and height."""
    path = LAYOUTS[kind](tmp_path, "a.jpg", (WIDTH, HEIGHT))
    path.parent.mkdir(parents=True)
    exif = Image.Exif()
    exif[274] = orientation
    Image.fromarray(SEEN).save(path, exif=exif, quality=98)
    sample = read(kind, tmp_path)
    pixels = np.asarray(sample["image"]).astype(int)
    assert sample["size"] == (HEIGHT, WIDTH)
    assert pixels[Y1 + 2 : Y2 - 2, X1 + 2 : X2 - 2].min() > 190
    assert pixels[Y2 + 3 : -8, :].max() < 60


@pytest.mark.parametrize("ending", ["avif", "pgm", "heic"])
def test_rarer_formats_are_the_same_in_folders_peek_and_show_tokens(tmp_path, prepared, ending):
    path = tmp_path / "train" / "thing" / f"a.{ending}"
    path.parent.mkdir(parents=True)
    if ending == "heic":
        pytest.importorskip("pi_heif")

        path.write_bytes(HEIC)
        shape = 48, 32
    else:
        if ending == "avif":
            pytest.importorskip("PIL.AvifImagePlugin")
        Image.fromarray(SEEN).save(path)
        shape = HEIGHT, WIDTH
    pixels = np.asarray(read("ImageFolder", tmp_path)["image"])
    assert pixels.shape == (*shape, 3)
    described = describe(path, 1)
    assert (described["height"], described["width"]) == shape
    assert described["mean"] == pytest.approx(pixels.mean((0, 1)), abs=0.06)
    own = prepared("imagefolder_pape")
    assert own.samples_in([tmp_path]) == [(path,)]
    (steps,) = own.steps.values()
    given = own.sample((path,))["inputs"]["image"]
    np.testing.assert_array_equal(given, read("ImageFolder", tmp_path, steps)["inputs"]["image"])
