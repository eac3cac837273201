"""Calls of all programs that read files, on hostile files in place of their usual ones."""

import contextlib
import io
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from PIL import Image

from ndformer.cli import program
from ndformer.framework.engine.building import build_model
from ndformer.framework.engine.config.load import load
from ndformer.framework.engine.training import checkpoint
from ndformer.framework.heads.head import Head
from ndformer.framework.registry import TRANSFORMS
from ndformer.modalities.image.formats.files import open_image
from ndformer.modalities.video.stand_ins.ucf101 import write_avi
from tests.modalities.events.conftest import random_events, write_evt3
from tests.modalities.image import layouts as boxes
from tests.soak import fuzz
from tests.soak.hostile import LARGE
from tools import (
    browse_dataset,
    check_data,
    convert_checkpoint,
    extrapolate,
    peek,
    predict,
    print_config,
    probe_positions,
    rank,
    report,
    show_attention,
    show_tokens,
    train,
    vote,
)
from tools import eval as eval_tool
from tools import test as test_tool

Call = Callable[[], object]
Made = Callable[[Path], object]
Content = bytes | Made
TRUTH = "annotations/instances_val2017.json"
LOADERS = ("train_dataloader", "val_dataloader", "test_dataloader")
SMALL = ["model.backbone.dim=16", "model.backbone.depth=1", "model.backbone.heads=2"]
SMALL += ["model.backbone.drop_path=0.0", "train_cfg.max_epochs=1"]
SMALL += [f"{loader}.{option}" for loader in LOADERS for option in ("num_workers=0", "batch_size=4")]


def command(main: Call, *words: object) -> Call:
    def call() -> None:
        sys.argv = ["tools/program.py", *map(str, words)]
        program.run(main)

    return call


class Set(NamedTuple):
    """A small set of data in the form that a shipped config reads, and a file of it that a stranger wrote."""

    config: str
    write: Callable[[Path], object]
    strange: str
    options: tuple[str, ...] = ()
    splits: tuple[str, ...] = ("train", "val")


def class_folders(ending: str, write: Callable[[Path], object]) -> Callable[[Path], None]:
    """Two classes of two files, for training and for testing."""

    def made(root: Path) -> None:
        for i in range(8):
            path = root / ("train", "test")[i % 2] / "ab"[i // 2 % 2] / f"{i}.{ending}"
            path.parent.mkdir(parents=True, exist_ok=True)
            write(path)

    return made


def both(write: Callable[[Path, str], object]) -> Callable[[Path], None]:
    """The splits of a set with boxes."""

    def made(root: Path) -> None:
        for split in ("train", "val"):
            write(root, split)

    return made


def picture(path: Path) -> None:
    Image.fromarray(np.full((32, 32, 3), 99, np.uint8)).save(path)


def moving(path: Path) -> None:
    write_avi(path, np.zeros((8, 32, 64, 3), np.uint8))


def recording(path: Path) -> None:
    write_evt3(path, random_events(300))


YOLO = tuple(f"{loader}.dataset.type=YoloFolder" for loader in LOADERS)
SETS = {
    "picture": [Set("imagefolder_pape", class_folders("png", picture), "train/a/0.png", ("model.head.classes=2",))],
    "pickle": [
        Set("cifar10_pape", fuzz.cifar, f"cifar-10-batches-py/{name}") for name in ("data_batch_1", "batches.meta")
    ],
    "gz": [Set("mnist_pape", fuzz.mnist, "t10k-images-idx3-ubyte.gz", splits=("test",))],
    "hdf5": [Set("modelnet40_plain_pape", fuzz.h5, "train0.h5")],
    "npy": [Set("scannet_pape", fuzz.scenes, "train/scene0000_00/coord.npy")],
    "text": [
        Set("modelnet40_plain_pape", fuzz.text, "cup/cup_0001.txt"),
        Set("modelnet40_plain_pape", fuzz.off, "box/train/box_0001.off"),
    ],
    "list": [Set("modelnet40_plain_pape", fuzz.text, f"modelnet40_{name}.txt") for name in ("train", "shape_names")],
    "yaml": [Set("bccd", both(boxes.yolo), "data.yaml", YOLO)],
    "json": [Set("coco_pape", both(boxes.coco), "annotations/instances_train2017.json")],
    "xml": [Set("bccd", both(boxes.voc), "Annotations/a.xml")],
    "video": [Set("custom_videos", class_folders("avi", moving), "train/a/0.avi")],
    "events": [Set("custom_events", class_folders("raw", recording), "train/a/0.raw")],
}
SETS["sides"] = SETS["picture"]
CHAINS = ("coco_pape", "ade20k_pape", "imagenet1k_pape")  # whose transforms of training change pictures
MODELS = {  # the config of `predict` for each kind of file
    "picture": "imagefolder_pape",
    "sides": "imagefolder_pape",
    **dict.fromkeys(["ply", "text", "pcd", "las", "model"], "modelnet40_plain_pape"),
    "video": "custom_videos",
    "events": "custom_events",
}
PLACES: dict[str, Made] = {
    "a pipe": os.mkfifo,
    "a device": lambda path: path.symlink_to("/dev/zero"),
    "a folder": lambda path: path.mkdir(),
    "zeros": lambda path: (path.touch(), os.truncate(path, LARGE)),
}


def options(config: str) -> list[str]:
    return ["--cfg-options", *SMALL, *(["model.head.classes=2"] if config == "imagefolder_pape" else [])]


def weights(config: str, path: Path) -> Path:
    """Of a small model, random."""
    torch.manual_seed(0)
    model = build_model(load(program.config_path(config), options(config)[1:]))
    classes = next(part.classes for part in model.modules() if isinstance(part, Head))
    checkpoint.save(path, dict(model=model.state_dict(), classes=[f"class {i}" for i in range(classes)]))
    return path


def cleared(path: Path) -> None:
    if path.is_dir():
        path.rmdir()
    else:
        path.unlink(missing_ok=True)


def placed(path: Path, made: Content) -> None:
    cleared(path)
    path.write_bytes(made) if isinstance(made, bytes) else made(path)


def peeked(path: Path) -> Call:
    return command(peek.main, path)


def predicted(kind: str, path: Path, home: Path) -> Call:
    config = MODELS[kind]
    trained = home / f"{config}.pth"
    if not trained.exists():
        weights(config, trained)
    return command(predict.main, config, trained, path, *options(config))


def transformed(config: str, path: Path) -> Call:
    """The picture as a training sample of that config."""
    steps = [TRANSFORMS.create(one) for one in load(program.config_path(config)).train_dataloader.dataset.transforms]

    def call() -> None:
        image = open_image(path)
        sample = dict(image=image, mask=Image.new("L", image.size), path=str(path))
        for step in steps:
            sample = step(sample, np.random.default_rng(0))

    return call


def warm(home: Path) -> None:
    """numba compiles once, for all that are forked."""
    path = home / "whole.raw"
    recording(path)
    with contextlib.redirect_stdout(io.StringIO()):
        predicted("events", path, home)()


def checked(one: Set, root: Path) -> Call:
    words = ["--workers", 0, "--data-root", root, "--splits", *one.splits, "--cfg-options", *one.options]
    return command(check_data.main, one.config, *(words if one.options else words[:-1]))


def sets(kind: str, crafted: list[tuple[str, Content]], home: Path) -> Iterator[tuple[str, Call]]:
    """check_data on the sets of a kind, with each of the hostile files in turn in the place of one of theirs; and train
    on the set of pictures."""
    for number, one in enumerate(SETS.get(kind, [])):
        root = home / f"{kind}{number}"
        root.mkdir()
        one.write(root)
        strange = root / one.strange
        for name, made in [*crafted, *PLACES.items()]:
            if Path(name).suffix not in (strange.suffix, "") and kind == "text":
                continue
            placed(strange, made)
            yield f"check_data {one.strange} {name}", checked(one, root)
            if kind in ("picture", "sides"):
                words = ("--data-root", root, "--work-dir", home / f"run {name}", *options(one.config))
                yield f"train {name}", command(train.main, one.config, *words)
                yield (
                    f"show_tokens {name}",
                    command(show_tokens.main, one.config, strange, "--out", home / "tokens.png"),
                )
                words = ("--data-root", root, "--out", home / "sheet.png", "--split", "val", *options(one.config))
                yield f"browse_dataset {name}", command(browse_dataset.main, one.config, *words)
            if kind == "json":
                yield f"eval truth {name}", command(eval_tool.main, "coco", strange, root / "none.json")
                yield f"eval found {name}", command(eval_tool.main, "coco", root / TRUTH, strange)
            cleared(strange)


def configs(good: Path, image: Path, home: Path, outside: Path) -> Iterator[tuple[str, Call]]:
    """Folders of runs from somebody else: code beside weights of any name, and configs of too many values."""
    code = f"import os\nos.system('touch {outside}/ran')\n_base_ = ['imagefolder_pape.py']\n"
    large = '{"digest": "", "config": {"a": [' + "[]," * 1_300_000 + "0]}}"
    names = [
        f"{stem}{end}" for stem in ("model", "epoch_3", "BEST") for end in (".pth", ".PTH", ".pt", ".ckpt", "", ".dat")
    ]
    for number, name in enumerate([*names, "weights.safetensors", "results.json"]):
        for config, text in {"config.py": code, "other.py": code, "config.json": large}.items():
            folder = home / f"{number}{config}"
            folder.mkdir()
            (folder / name).write_bytes(good.read_bytes())
            (folder / config).write_text(text)
            yield f"predict {config} {name}", command(predict.main, folder / config, folder / name, image)
            yield f"print_config {config} {name}", command(print_config.main, folder / config)
            yield f"test {config} {name}", command(test_tool.main, folder / config, folder / name)


def no_files(good: Path, image: Path, home: Path) -> Iterator[tuple[str, Call]]:
    """Pipes, devices and folders by the name of what each program reads."""
    words, config = options("imagefolder_pape"), "imagefolder_pape"
    for kind, made in PLACES.items():
        for ending in (".pth", ".safetensors", ".json", ".png"):
            path = home / f"{kind}{ending}"
            made(path)
            yield f"convert_checkpoint {path.name}", command(convert_checkpoint.main, "dinov2", path, home / "out.pth")
            yield f"predict with {path.name}", command(predict.main, config, path, image, *words)
            yield f"predict {path.name}", command(predict.main, config, good, path, *words)
            yield f"eval {path.name}", command(eval_tool.main, "coco", path, path)
            yield f"rank {path.name}", command(rank.main, path, "--out", home / "rank")
            yield f"report {path.name}", command(report.main, path, "--out", home / "report.html")
            yield f"print_config {path.name}", command(print_config.main, path)


def given_weights(content: Content, path: Path, root: Path, home: Path) -> Iterator[tuple[str, Call]]:
    """Weights of others, tested, gone on from and begun with, on the whole set of pictures in `root`."""
    placed(path, content)
    one = SETS["picture"][0]
    words = ("--data-root", root, *options(one.config))
    yield f"test {path.name}", command(test_tool.main, one.config, path, *words)
    yield (
        f"train from {path.name}",
        command(train.main, one.config, "--work-dir", home / "begun", *words, f"weights={path}"),
    )
    image = root / "test" / "b" / "7.png"
    looks = {
        "show_attention": command(show_attention.main, one.config, path, image, "--out", home / "a.png", *words),
        "probe_positions": command(probe_positions.main, one.config, path, "--out", home / "probes", *words),
        "extrapolate": command(extrapolate.main, one.config, path, "--sizes", 32, "--out", home / "sizes", *words),
        "vote": command(vote.main, "modelnet40_plain_pape", path, "--data-root", root),
        "convert_checkpoint": command(convert_checkpoint.main, "pointcept", path, home / "converted.pth"),
        "convert_checkpoint dinov2": command(convert_checkpoint.main, "dinov2", path, home / "converted.pth"),
    }
    for tool, call in looks.items():
        yield f"{tool} {path.name}", call
    if path.suffix == ".pth":
        folder = home / f"run of {path.name}"
        folder.mkdir()
        placed(folder / checkpoint.LAST, content)
        yield f"train --resume {path.name}", command(train.main, one.config, "--work-dir", folder, "--resume", *words)
