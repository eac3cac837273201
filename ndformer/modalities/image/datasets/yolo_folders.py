"""Find the images, labels and class names of a YOLO dataset in the layouts of ultralytics, Roboflow, Darknet and CVAT.

        images/train/*.jpg   labels/train/*.txt        and val/ (or valid/) and test/ alike
    train/images/*.jpg   train/labels/*.txt        Roboflow's
        train/*.jpg          train/*.txt beside them   Darknet's, as Roboflow writes it
        data.yaml            with `names`, and `train`, `val`, `test`: folders, lists of images, or several of them
    obj.data             Darknet's and CVAT's: train = data/train.txt, valid = ..., names = data/obj.names

data.yaml and obj.data come first. Their paths, and those in lists, often belong to the machine that wrote them, so the
longest tail of each path that exists below the folder is taken.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ndformer.framework import foreign
from ndformer.framework.data.folders import missing
from ndformer.framework.errors import DataError
from ndformer.modalities.image.formats.files import ENDINGS

NAMES = dict(train=("train",), val=("val", "valid", "validation"), test=("test",))
MAX_NUMBER = 10_000  # of classes
CLASSES = ("classes.txt", "*.names", "_darknet.labels")  # a name per line


def read_meta(root: Path) -> dict[str, Any]:
    """Read data.yaml (of any name) and obj.data into one dict."""
    meta: dict[str, Any] = {}
    for file in sorted((*root.glob("*.yaml"), *root.glob("*.yml"))):
        content = foreign.plain_yaml(file)
        if isinstance(content, dict) and "names" in content:
            meta = content | meta
    for file in sorted(root.glob("*.data")):
        rows = (line.partition("=") for line in foreign.lines(file, errors="replace"))
        meta = {name.strip(): value.strip() for name, sign, value in rows if sign} | meta
    return meta


def sources(root: Path, split: str, about: dict[str, Any]) -> list[Path]:
    """Return the image folders and image lists of a split; empty where there is no such split."""
    entry = next((about[name] for name in NAMES[split] if about.get(name)), [])
    start = about.get("path") if isinstance(about.get("path"), str) else ""
    entries = [entry] if isinstance(entry, str) else entry if isinstance(entry, list) else []
    paths = [path for entry in entries if (path := foreign.below(root, f"{start}/{entry}")) is not None]
    if paths:
        return paths
    for name in NAMES[split]:
        for home in (root / "images" / name, root / name / "images", root / name):
            if home.is_dir() and any(path.suffix.lower() in ENDINGS for path in home.rglob("*")):
                return [home]
        if (root / f"{name}.txt").is_file():
            return [root / f"{name}.txt"]
    return []


def listed(root: Path, file: Path) -> list[Path]:
    """Return the image paths of a list; a path that does not exist is returned as written."""
    lines = [line.strip() for line in foreign.lines(file) if line.strip()]
    return [foreign.below(root, line) or foreign.inside(root, Path(line.lstrip("./")).as_posix()) for line in lines]


def label_file(root: Path, image: Path) -> Path:
    """Return the label file of an image: labels/.../a.txt for images/.../a.jpg, or a.txt in the same folder."""
    parts = list(image.relative_to(root).parts)
    if "images" in parts:
        parts[len(parts) - 1 - parts[::-1].index("images")] = "labels"
        label = root.joinpath(*parts).with_suffix(".txt")
        if label.is_file() or not image.with_suffix(".txt").is_file():
            return label
    return image.with_suffix(".txt")


def _by_number(root: Path, names: dict[Any, Any]) -> list[Any]:
    """Return the names of data.yaml in the order of their numbers; a number without a name is its own."""
    try:
        numbered = {int(number): name for number, name in names.items()}
    except (ValueError, TypeError):
        numbered = {-1: ""}
    if not 0 <= min(numbered, default=0) <= max(numbered, default=0) < MAX_NUMBER:
        raise DataError(
            f"{root / 'data.yaml'}: expected class numbers from 0 to {MAX_NUMBER - 1} before its names, got "
            f"{', '.join(map(str, names))[:80]}. Write names: {{0: cat, 1: dog}}"
        )
    return [numbered.get(number, number) for number in range(max(numbered, default=-1) + 1)]


def classes(root: Path, homes: Sequence[Path], about: dict[str, Any], fallback: list[str]) -> list[str]:
    """Read the class names from data.yaml, else from a text file, else return `fallback`."""
    names = about.get("names")
    if isinstance(names, dict):
        names = _by_number(root, names)
    if isinstance(names, list) and names:
        return [str(name) for name in names]
    file = foreign.below(root, names) if isinstance(names, str) else None
    files = (
        [file] if file is not None else [f for home in (root, *homes) for p in CLASSES for f in sorted(home.glob(p))]
    )
    if not files and fallback:
        return fallback
    if not files:
        raise missing(root / "data.yaml", "names: [cat, dog]", "or classes.txt, a name per line")
    return [line.strip() for line in foreign.lines(files[0]) if line.strip()]
