"""Where YOLO's images, labels and names of classes lie: the habits of ultralytics, Roboflow, Darknet and CVAT.

    images/train/*.jpg   labels/train/*.txt        and val/ (or valid/) and test/ like it
    train/images/*.jpg   train/labels/*.txt        Roboflow's
    train/*.jpg          train/*.txt beside them   Darknet's, as Roboflow writes it
    data.yaml            with `names`, and `train`, `val`, `test`: folders, lists of images, or several of them
    obj.data             Darknet's and CVAT's: train = data/train.txt, valid = ..., names = data/obj.names

What data.yaml and obj.data say comes first. Their paths, and those in lists, are often of the machine that wrote them:
the longest end of each that is below the folder counts.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ndformer.framework import foreign
from ndformer.framework.data.folders import missing
from ndformer.modalities.image.formats.files import ENDINGS

NAMES = dict(train=("train",), val=("val", "valid", "validation"), test=("test",))
CLASSES = ("classes.txt", "*.names", "_darknet.labels")  # a name per line


def said(root: Path) -> dict[str, Any]:
    """data.yaml, or what it is called, and obj.data, as one."""
    found: dict[str, Any] = {}
    for file in sorted((*root.glob("*.yaml"), *root.glob("*.yml"))):
        content = foreign.plain_yaml(file)
        if isinstance(content, dict) and "names" in content:
            found = content | found
    for file in sorted(root.glob("*.data")):
        rows = (line.partition("=") for line in foreign.lines(file, errors="replace"))
        found = {name.strip(): value.strip() for name, sign, value in rows if sign} | found
    return found


def sources(root: Path, split: str, about: dict[str, Any]) -> list[Path]:
    """Folders of images, and lists of them, of a split; none where there is no such split."""
    told = next((about[name] for name in NAMES[split] if about.get(name)), [])
    start = about.get("path") if isinstance(about.get("path"), str) else ""
    several = [told] if isinstance(told, str) else told if isinstance(told, list) else []
    found = [path for one in several if (path := foreign.below(root, f"{start}/{one}")) is not None]
    if found:
        return found
    for name in NAMES[split]:
        for home in (root / "images" / name, root / name / "images", root / name):
            if home.is_dir() and any(path.suffix.lower() in ENDINGS for path in home.rglob("*")):
                return [home]
        if (root / f"{name}.txt").is_file():
            return [root / f"{name}.txt"]
    return []


def listed(root: Path, file: Path) -> list[Path]:
    """The images of a list, each by its path; those that are nowhere are left as they are said to be."""
    lines = [line.strip() for line in foreign.lines(file) if line.strip()]
    return [foreign.below(root, line) or foreign.inside(root, Path(line.lstrip("./")).as_posix()) for line in lines]


def labels_of(root: Path, image: Path) -> Path:
    """labels/.../a.txt of images/.../a.jpg, or a.txt beside it."""
    parts = list(image.relative_to(root).parts)
    if "images" in parts:
        parts[len(parts) - 1 - parts[::-1].index("images")] = "labels"
        there = root.joinpath(*parts).with_suffix(".txt")
        if there.is_file() or not image.with_suffix(".txt").is_file():
            return there
    return image.with_suffix(".txt")


def classes(root: Path, homes: Sequence[Path], about: dict[str, Any], known: list[str]) -> list[str]:
    names = about.get("names")
    if isinstance(names, dict):
        names = [names[key] for key in sorted(names, key=lambda key: (str(type(key)), key))]
    if isinstance(names, list) and names:
        return [str(name) for name in names]
    file = foreign.below(root, names) if isinstance(names, str) else None
    files = (
        [file] if file is not None else [f for home in (root, *homes) for p in CLASSES for f in sorted(home.glob(p))]
    )
    if not files and known:
        return known
    if not files:
        raise missing(root / "data.yaml", "names: [cat, dog]", "or classes.txt, a name per line")
    return [line.strip() for line in foreign.lines(files[0]) if line.strip()]
