"""Descriptions of files with many images, labels or boxes: IDX, CIFAR's pickles, .mat, COCO, VOC and YOLO."""

import re
import zlib
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np

from ndformer.framework import foreign
from ndformer.framework.data.describe import CONTENT, ENDING, NO, Describer, Description, true_sentences
from ndformer.framework.errors import DataError
from ndformer.framework.evaluation.coco.files import GroundTruth, read_truth
from ndformer.framework.registry import DESCRIBERS
from ndformer.modalities.image.datasets.cifar import are_numbers, class_names, unpickle
from ndformer.modalities.image.datasets.coco import image_folder
from ndformer.modalities.image.datasets.detection import annotated_size
from ndformer.modalities.image.datasets.mnist import read_idx
from ndformer.modalities.image.datasets.voc import is_difficult
from ndformer.modalities.image.formats.matlab import read_mat
from ndformer.modalities.image.formats.yolo import describe_kinds, read_rows

NUMBERED = re.compile(r"\s*\d+(\.0*)?(\s+[-+.\deE]+){4}\s*")  # a row of a box in YOLO's format
SHARES = re.compile(
    r"\s*\d+(\s+(0|1|[01]?\.\d+|\d(\.\d+)?[eE]-\d+)){6,}\s*[\d.]*"
)  # a row of a polygon in YOLO's format; the end may be cut off
PICTURES = 200  # images of an annotation file whose sizes are checked


@DESCRIBERS.register_module()
class ImageLabels(Describer):
    """Files of image labels, recognized by their ending or by their first bytes."""

    def claim(self, path: Path, begin: bytes) -> int:
        ending = path.suffix.lower()
        if ending in (".mat", ".xml", ".json"):
            return ENDING
        if begin[:2] == b"\x1f\x8b":
            begin = _inflated(begin)
        if ending == ".txt":
            line = begin.decode("latin-1").partition("\n")[0]
            matches = (NUMBERED.fullmatch(line) or SHARES.fullmatch(line)) is not None
        else:
            matches = begin[:4] in (b"\0\0\x08\1", b"\0\0\x08\3") or (ending == "" and begin[:1] == b"\x80")
        return CONTENT if matches else NO

    def describe(self, path: Path, rows: int) -> Description:
        if not path.is_file():
            raise DataError(f"{path} is missing: get the dataset again, or give another file")
        kinds = {".mat": _mat, ".xml": _voc, ".json": _coco, ".txt": _yolo}
        return kinds.get(path.suffix.lower(), _packed)(path)


def _inflated(begin: bytes) -> bytes:
    try:
        return zlib.decompressobj(wbits=31).decompress(begin, 16)
    except zlib.error:
        return b""


def _packed(path: Path) -> Description:
    with foreign.opened(path) as file:
        begin = file.read(1)
    return _cifar(path) if begin == b"\x80" else _idx(path)


def _idx(path: Path) -> Description:
    try:
        dims = foreign.gunzipped(path, 4)[3:]
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path} is damaged ({error}): get it again") from None
    if dims == b"\1":
        return _labels("IDX labels", read_idx(path, 1))
    return _images("IDX images", read_idx(path, 3))


def _images(kind: str, images: np.ndarray) -> Description:
    """(N, H, W) bytes."""
    count, height, width = images.shape
    found: dict[str, Any] = dict(format=kind, images=count, height=height, width=width)
    odd = []
    if count:
        found |= dict(mean=round(float(images.mean()), 1), deviation=round(float(images.std()), 1))
        flat = images.reshape(count, -1)
        blank, twice = int((flat == flat[:, :1]).all(1).sum()), count - len({row.tobytes() for row in flat})
        odd = true_sentences(
            {f"{blank} images are of one colour": blank, f"{twice} images are the same as another one": twice}
        )
    return found, odd or ([] if count else ["it holds no images"]), []


def _labels(kind: str, labels: np.ndarray) -> Description:
    values, counts = np.unique(labels, return_counts=True)
    classes = {int(value): int(count) for value, count in zip(values, counts)}
    odd = [f"all labels are {values[0]}"] if len(values) == 1 else [] if len(values) else ["it holds no labels"]
    return dict(format=kind, labels=len(labels), classes=classes), odd, [dict(label=int(v)) for v in labels[:20]]


def _cifar(path: Path) -> Description:
    batch = unpickle(path)
    names = next((batch[key] for key in ("label_names", "fine_label_names") if key in batch), None)
    if isinstance(names, list):
        words = class_names(path, names)
        return (
            dict(format="CIFAR names", classes=len(words)),
            [],
            [{"class": i, "name": n} for i, n in enumerate(words)],
        )
    images = batch.get("data")
    if not isinstance(images, np.ndarray) or images.dtype != np.uint8 or images.ndim != 2 or images.shape[1] != 3072:
        raise DataError(f"{path} is a pickle but no CIFAR batch (it has no data of N x 3072 bytes): get it again")
    found, odd, _ = _images("CIFAR batch", images.reshape(-1, 96, 32))
    labels = batch.get("labels", batch.get("fine_labels"))
    if not isinstance(labels, list) or len(labels) != len(images) or not are_numbers(labels):
        return found | dict(height=32), [*odd, "it has not one whole number as label for each image"], []
    about, strange, first = _labels("", np.array(labels, np.int64))
    return found | dict(height=32, classes=about["classes"]), odd + strange, first


def _mat(path: Path) -> Description:
    arrays = read_mat(path)
    found = {name: f"{' x '.join(map(str, array.shape))} {array.dtype}" for name, array in arrays.items()}
    odd = [] if arrays else ["it holds no arrays of numbers"]
    ends = {n: (a.min().item(), a.max().item()) if a.size else (None, None) for n, a in arrays.items()}
    first = [dict(array=name, smallest=low, largest=high) for name, (low, high) in ends.items()]
    return dict(format="MATLAB 5", arrays=len(arrays)) | found, odd, first


def _coco(path: Path) -> Description:
    truth = read_truth(path)
    boxes, sizes = truth.boxes, [(r.get("width"), r.get("height")) for r in truth.records]
    counts = np.bincount(boxes.label, minlength=len(truth.classes)).tolist()
    found: dict[str, Any] = dict(format="COCO annotations", images=len(truth.images), boxes=len(boxes.label))
    found |= dict(crowds=int(boxes.crowd.sum()), classes=dict(zip(truth.classes, counts)))
    empty, none = len(truth.images) - len(np.unique(boxes.image)), counts.count(0)
    unnamed = sum(not isinstance(record.get("file_name"), str) for record in truth.records)
    without = {"images have no box": empty, "classes have no box": none, "images have no file_name": unnamed}
    odd = true_sentences({f"{count} {what}": count for what, count in without.items()})
    if all(isinstance(w, int) and isinstance(h, int) for w, h in sizes) and sizes:
        limit = np.array(sizes, np.float64)[boxes.image]
        odd += _outside(boxes.box[:, :2], boxes.box[:, :2] + boxes.box[:, 2:], limit, 0.5)
    odd += _other_sizes(path, truth)
    first = [
        dict(image=truth.images[i], name=truth.classes[c]) | dict(zip(("x", "y", "width", "height"), box))
        for i, c, box in zip(boxes.image[:20], boxes.label[:20], boxes.box[:20].round(2).tolist())
    ]
    return found, odd, first


def _other_sizes(path: Path, truth: GroundTruth) -> list[str]:
    """List images of the file whose size on disk differs from the annotated size, among the first PICTURES."""
    root = path.parent if path.name == "_annotations.coco.json" else path.parent.parent
    home, wrong, checked = image_folder(root, path), [], 0
    for record in truth.records[:PICTURES]:
        annotated = annotated_size(record.get("width"), record.get("height"))
        name = record.get("file_name")
        if annotated is None or not isinstance(name, str) or not (picture := foreign.inside(home, name)).is_file():
            continue
        checked += 1
        size = foreign.image_size(picture)
        if annotated not in (size, size[::-1]):
            actual, claimed = (" x ".join(map(str, side)) for side in (size, annotated))
            wrong.append(f"{name} has {actual} pixels, but the list claims {claimed}")
    if not wrong:
        return []
    return [
        f"{len(wrong)} of {checked} pictures are not as large as it says, so their boxes may be elsewhere: {wrong[0]}"
    ]


def _outside(low: np.ndarray, high: np.ndarray, size: np.ndarray, slack: float) -> list[str]:
    """Count boxes beyond their images and boxes without area, by corners (N, 2) and image sizes (N, 2)."""
    out = int(((low < -slack) | (high > size + slack)).any(1).sum())
    thin = int((high <= low).any(1).sum())
    return true_sentences({f"{out} boxes reach out of their images": out, f"{thin} boxes have no area": thin})


def _voc(path: Path) -> Description:
    try:
        root = foreign.plain_xml(path)
        size = [int(float(root.findtext(f"size/{side}") or 0)) for side in ("width", "height")]
        sides = ("xmin", "ymin", "xmax", "ymax")
        first = [
            dict(name=(element.findtext("name") or "").strip())
            | {s: float(element.findtext(f"bndbox/{s}") or "nothing") for s in sides}
            for element in root.iter("object")
        ]
    except (ElementTree.ParseError, ValueError, OverflowError) as error:
        raise DataError(f"{path} cannot be read as VOC's xml ({error}): get it again") from None
    names = [row["name"] for row in first]
    box = np.array([[row[s] for s in sides] for row in first]).reshape(-1, 4)
    odd = _outside(box[:, :2] - 1, box[:, 2:], np.array(size) + np.zeros((len(box), 2)), 0) if all(size) else []
    odd += [] if all(size) else ["it does not say how large its image is"]
    hard = sum(map(is_difficult, root.iter("object")))
    odd += [f"{hard} objects are difficult: they are neither learnt from nor counted"] if hard else []
    odd += [f"{names.count('')} objects have no name"] if "" in names else []
    found = dict(format="VOC annotation", width=size[0], height=size[1], boxes=len(first))
    return found | dict(classes={name: names.count(name) for name in sorted(set(names))}), odd, first


def _yolo(path: Path) -> Description:
    classes, box, kinds = read_rows(path)
    about, _, numbers = _labels("", classes.astype(np.int64))
    odd = _outside(box[:, :2], box[:, 2:], np.ones((len(box), 2)), 1e-3)
    odd += [summary] if (summary := describe_kinds(kinds)) else []
    names = ("x", "y", "width", "height")
    centred = np.concatenate([(box[:, :2] + box[:, 2:]) / 2, box[:, 2:] - box[:, :2]], 1)[:20].round(6)
    first = [row | dict(zip(names, values)) for row, values in zip(numbers, centred.tolist())]
    return dict(format="YOLO boxes", boxes=len(box), classes=about["classes"]), odd, first
