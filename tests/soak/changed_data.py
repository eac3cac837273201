"""Change data between two commands in eight ways: train --resume and test must report each, and nothing else.

With --stand-ins, also lengthen a file of each kind in every stand-in: its fingerprint must change.

python -m tests.soak.changed_data [--stand-ins]
"""

import argparse
import contextlib
import io
import os
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from ndformer.framework.data.fingerprint import fingerprint
from ndformer.framework.data.stand_ins import MARK, make_sample
from ndformer.framework.engine.training import checkpoint
from ndformer.framework.errors import DataError
from ndformer.framework.pictures import runs as report
from ndformer.framework.registry import DATASETS, STAND_INS
from tools import test as test_tool
from tools import train as train_tool

CONFIG = str(Path(__file__).parents[2] / "configs" / "imagefolder_pape.py")
SMALL = ["model.backbone.dim=16", "model.backbone.depth=1", "model.backbone.heads=2", "model.head.classes=2"]
SMALL += ["train_cfg.max_epochs=1", *(f"{split}_dataloader.num_workers=0" for split in ("train", "val", "test"))]

READ_WHOLE = ("", ".txt", ".csv", ".json", ".xml", ".meta")  # when a set is opened; CIFAR's pickles have no ending


def picture(path: Path, seed: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.random.default_rng(seed).integers(0, 256, (32, 32, 3), np.uint8)).save(path)


def data(root: Path) -> None:
    for s, split in enumerate(("train", "val", "test")):
        for c, name in enumerate(("cat", "dog")):
            for i in range(10):
                picture(root / split / name / f"{i}.bmp", 100 * s + 10 * c + i)


def swap(home: Path) -> None:
    (home / "cat").rename(home / "beside")
    (home / "dog").rename(home / "cat")
    (home / "beside").rename(home / "dog")


def half(home: Path) -> None:
    for i in range(5):
        (home / "dog" / f"{i}.bmp").unlink()


def seed(home: Path) -> int:
    """Return another seed for each split, as a picture in two splits is refused before other changes are reported."""
    return 990 + len(home.name)


def larger(home: Path) -> None:
    Image.new("RGB", (40, 40), (seed(home) % 256, 0, 0)).save(home / "cat" / "3.bmp")


WAYS: dict[str, Callable[[Path], object]] = {  # of one split's folder
    "a file removed": lambda home: (home / "cat" / "3.bmp").unlink(),
    "a file added": lambda home: picture(home / "cat" / "30.bmp", seed(home)),
    "a file renamed": lambda home: (home / "cat" / "3.bmp").rename(home / "cat" / "31.bmp"),
    "a file replaced, of another size": larger,
    "a file replaced, of the same size": lambda home: picture(home / "cat" / "3.bmp", seed(home)),
    "half of a class deleted": half,
    "class folders swapped": swap,
    "a class renamed": lambda home: (home / "dog").rename(home / "hound"),
}


def ran(main: Callable[[], object], *arguments: str) -> str:
    """Run a program and return its error, or its warnings about data; "" for none."""
    sys.argv = ["tools/x.py", CONFIG, *arguments, "--cfg-options", *SMALL]
    with warnings.catch_warnings(record=True) as warned, contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("always")
        try:
            main()
        except DataError as error:
            return str(error)
    return "; ".join(str(one.message) for one in warned if "the data is not" in str(one.message))


def told(folder: Path) -> list[str]:
    """Return the changes that are not reported, and print those that are."""
    data(folder / "data")
    run, best = folder / "run", folder / "run" / checkpoint.BEST
    ran(train_tool.main, "--data-root", str(folder / "data"), "--work-dir", str(run))
    wrong = []
    for way, change in {"nothing": lambda _: None, **WAYS}.items():
        changed = folder / "changed" / "data"
        shutil.copytree(folder / "data", changed)  # other times of change, another root
        for split in ("train", "val", "test") if "class " in way else ("train", "test"):
            change(changed / split)
        shutil.rmtree(folder / "data")
        changed.rename(folder / "data")
        resumed = ran(train_tool.main, "--data-root", str(folder / "data"), "--work-dir", str(run), "--resume")
        tested = ran(test_tool.main, str(best), "--data-root", str(folder / "data"))
        for program, said in (("train --resume", resumed), ("test", tested)):
            print(f"{way}: {program}: {' '.join(said.split()) or 'nothing'}", flush=True)
            if ("the data is not that of the run" in said) == (way == "nothing"):
                wrong.append(f"{way}: {program} says '{said}'")
        shutil.rmtree(folder / "data")
        data(folder / "data")
    return wrong


def uncounted(name: str, folder: Path) -> list[str]:
    """Return the files of a stand-in, one of each ending, that can be a line longer with the same fingerprint.

    Lists and tables are left out: only their content counts.
    """
    stand_in = make_sample(name, folder / name)
    splits = ("train", "val", "test")

    def all_splits() -> list[object]:
        return [fingerprint(DATASETS.create(stand_in.dataset | dict(data_root=folder / name, split=s))) for s in splits]

    before, missed = all_splits(), []
    files = [path for path in sorted((folder / name).rglob("*")) if path.is_file() and path.name != MARK]
    chosen = {path.suffix: path for path in files}  # one of a kind
    for path in chosen.values():
        content = path.read_bytes()
        path.write_bytes(content + b"\n")
        try:
            if all_splits() == before:
                missed.append(str(path.relative_to(folder)))
        except DataError:
            pass  # noticed
        path.write_bytes(content)
    print(f"{name}: {len(files)} files of {len(chosen)} kinds, not counted: {missed or 'none'}", flush=True)
    return [one for one in missed if Path(one).suffix not in READ_WHOLE]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stand-ins", action="store_true", help="every dataset's files, too")
    given = parser.parse_args()
    torch.set_num_threads(1)
    report.curves = report.confusion_matrix = lambda *given: None
    with tempfile.TemporaryDirectory() as name:
        os.chdir(name)
        wrong = told(Path(name))
        print("\n".join(wrong) or f"{len(WAYS)} of {len(WAYS)} ways are told by both, and no change by neither")
        if given.stand_ins:
            for one in sorted(STAND_INS.all()):
                wrong += uncounted(one, Path(name) / "stand_ins")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
