"""Give mutated JSON, configs and tables to programs: each must print a result or a written error message.

python -m tests.soak.answers --count 10000              all kinds; prints a table and each other answer
python -m tests.soak.answers --kinds nuscenes runs
"""

import argparse
import contextlib
import io
import json
import os
import random
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch

from ndformer.cli import program
from ndformer.framework.data.dataset import create
from ndformer.framework.engine.building import build_model
from ndformer.framework.engine.config import saved
from ndformer.framework.engine.config.load import load
from ndformer.framework.engine.training import checkpoint
from ndformer.modalities.driving.stand_ins.nuscenes import Writer
from tests.soak import fuzz
from tests.soak.config_edits import places
from tools import eval as evaluation
from tools import peek, print_config, rank, report, reproduce

CONFIGS = Path(__file__).parents[2] / "configs"
SMALL = ["model.backbone.dim=16", "model.backbone.depth=1", "model.backbone.heads=2"]
HUGE = "a number without end"  # stands for 1e400, which json.dumps does not write
STRANGE: list[Any] = [None, True, "", "x", "\ud800", "a\nb\u2028c", "\x1b[31m", 10**20, -(10**20), -1, 0, 3, 0.5, HUGE]
STRANGE += [float("nan"), 10**400, [], {}, [None], [[]], [0], {"": 0}, {"type": "x"}, "9" * 25, "../x", "x" * 300]
GENERIC = "(NDFORMER_DEBUG=1 shows where)"


class Kind(NamedTuple):
    """A program, and the files that it reads and that are mutated."""

    write: Callable[[Path], None]  # into an empty folder
    mutated: str  # these files, one at a time
    call: Callable[[Path], object]


def nuscenes(folder: Path) -> None:
    Writer(folder, 0, "v1.0-mini").write(train=1, val=1, moments=2)


def read_nuscenes(folder: Path) -> None:
    for split in ("train", "val"):
        data = create(dict(type="NuScenes", data_root=str(folder), version="v1.0-mini", split=split), 0)
        for i in range(len(data)):
            data.sample(0, i)


def submission(folder: Path) -> None:
    nuscenes(folder)
    row = dict(translation=[0, 0, 0], size=[1, 1, 1], rotation=[1, 0, 0, 0], velocity=[0, 1], detection_name="car")
    row |= dict(detection_score=0.5, attribute_name="")
    found = {one["token"]: [row] for one in json.loads((folder / "v1.0-mini/sample.json").read_text())[2:]}
    (folder / "found.json").write_text(json.dumps(dict(meta=dict(use_lidar=True), results=found)))


def measured(folder: Path) -> None:
    peek.main([str(folder / "found.json")])
    which = ["--version", "v1.0-mini", "--split", "mini_val"]
    evaluation.main(["nuscenes", str(folder), str(folder / "found.json"), *which])


def read_arc(folder: Path) -> None:
    data = create(dict(type="ArcTasks", data_root=str(folder), split="train"), 0)
    for i in range(len(data)):
        data.sample(0, i)


def coco(folder: Path) -> None:
    boxes = [dict(id=i, image_id=1, category_id=1, bbox=[1, 1, 5, 5], area=25, iscrowd=0) for i in range(1, 3)]
    images = [dict(id=1, file_name="a.png", width=9, height=9)]
    truth = dict(images=images, annotations=boxes, categories=[dict(id=1, name="cat")])
    (folder / "truth.json").write_text(json.dumps(truth))
    (folder / "found.json").write_text(json.dumps([dict(image_id=1, category_id=1, bbox=[1, 1, 5, 5], score=0.5)]))


def run_folder(folder: Path) -> None:
    home = folder / "run"
    (home / "shown").mkdir(parents=True)
    cfg = load(CONFIGS / "mnist_small.py", SMALL)
    saved.write(home, cfg.to_dict())
    checkpoint.save(home / "best.pth", dict(model=build_model(cfg).state_dict(), classes=list("0123456789")))
    test = dict(accuracy=0.5, mean_accuracy=0.4)
    figures = dict(test=test, val=test, params=10, minutes=0.1, config="mnist_small.py", dataset="MNIST", seed=0)
    (home / "results.json").write_text(json.dumps(figures))
    (home / "shown/0.png").write_bytes(b"\x89PNG\r\n")
    (home / "shown/shown.json").write_text(json.dumps([dict(kind="samples", says="a", file="0.png")]))


def written_report(folder: Path) -> None:
    report.main([str(folder / "run")])


def shown_config(folder: Path) -> None:
    print_config.main([str(folder / "run/config.json"), "--diff", "mnist_small"])


def results(folder: Path) -> None:
    for experiment in reproduce.papers()[0].experiments[:2]:
        home = folder / f"{experiment.paper}_{experiment.item}_{next(iter(experiment.scales))}"
        home.mkdir()
        values = {row: {"0": dict.fromkeys(experiment.columns, 50.0)} for row in experiment.rows}
        (home / "results.json").write_text(json.dumps(dict(values=values)))


def comparison(folder: Path) -> None:
    source = CONFIGS.parent / "docs" / "results" / "data" / "start.json"
    (folder / "start.json").write_text(source.read_text())


KINDS = dict(
    nuscenes=Kind(nuscenes, "v1.0-mini/*.json", read_nuscenes),
    described=Kind(
        nuscenes, "v1.0-mini/*.json", lambda folder: peek.main([*map(str, sorted(folder.glob("v1.0-mini/*.json")))])
    ),
    submission=Kind(submission, "found.json", measured),
    arc=Kind(fuzz.arc, "data/training/*.json", read_arc),
    runs=Kind(run_folder, "run/*.json", written_report),
    shown=Kind(run_folder, "run/shown/*.json", written_report),
    configs=Kind(run_folder, "run/config.json", shown_config),
    pages=Kind(results, "*/results.json", lambda folder: reproduce.main(["--pages", str(folder)])),
    coco=Kind(
        coco,
        "*.json",
        lambda folder: evaluation.main(["coco", str(folder / "truth.json"), str(folder / "found.json")]),
    ),
    rank=Kind(comparison, "*.json", lambda folder: rank.main([str(folder / "start.json"), "--out", str(folder)])),
)


def mutated(text: str, rng: random.Random) -> str:
    """Replace, delete, double or rename a value; sometimes cut or double the text itself."""
    how = rng.choice(["replace"] * 6 + ["delete", "double", "rename", "nest", "text"])
    if how == "text":
        cut = rng.randrange(len(text))
        return rng.choice([text[:cut], text + text, text[:cut] + text[cut + 1 :], "[" * 5000, "", "null", "0", "[]"])
    value = json.loads(text)
    if how == "double" and isinstance(value, list) and rng.random() < 0.5:
        return json.dumps(value + value)
    every = list(places(value))
    at = rng.choice(every) if every else ()
    if not at:
        return json.dumps(rng.choice([None, [], {}, 5]))
    inner = value
    for key in at[:-1]:
        inner = inner[key]
    old = inner[at[-1]]
    if how == "delete":
        del inner[at[-1]]
    elif how == "double":
        value = inner[at[-1]] = [old, old] if not isinstance(old, list) else old + old
    elif how == "rename" and isinstance(inner, dict):
        inner[rng.choice(["", "x", "__tuple__", "__float__", "__dict__", str(at[-1]).upper()])] = inner.pop(at[-1])
    elif how == "nest":
        for _ in range(rng.choice([1, 60, 200])):
            old = [old]
        inner[at[-1]] = old
    else:
        inner[at[-1]] = rng.choice(STRANGE)
    return json.dumps(value).replace(f'"{HUGE}"', "1e400")


def answer(call: Callable[[], object]) -> str:
    """Return "result", "sentence", or a description of another answer."""
    out, error = io.StringIO(), io.StringIO()
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(error), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program.run(call)
        said = out.getvalue()
    except SystemExit as end:
        said = str(end.code)
        if GENERIC in said:
            return f"generic: {said}"
        if not said.isprintable() and "\n" not in said:
            return f"unprintable: {said!r}"
    except BaseException as strange:
        return f"traceback: {type(strange).__name__}: {strange!s:.200}"
    try:
        said.encode()
    except UnicodeEncodeError:
        return f"not to be printed: {said!r:.200}"
    return "result" if out.getvalue() == said else "sentence"


def series(kind: Kind, count: int, seed: int, tell: Callable[[str], object]) -> Counter[str]:
    rng, tally = random.Random(seed), Counter[str]()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        kind.write(folder)
        before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
        files = sorted(folder.glob(kind.mutated))
        for _ in range(count):
            path = rng.choice(files)
            path.write_text(mutated(before[path].decode(), rng))
            begin = time.process_time()
            found = answer(lambda: kind.call(folder))
            if time.process_time() - begin > 20:
                found = f"slow: {found}"
            tally[found if found in ("result", "sentence") else found.partition(":")[0]] += 1
            if found not in ("result", "sentence"):
                tell(f"{path.name}: {found.replace(place, '')}")
            path.write_bytes(before[path])
            for other in folder.rglob("*"):
                if other.is_file() and other not in before:
                    other.unlink()
    return tally


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=10_000, help="mutations of all kinds together")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    os.environ.pop("NDFORMER_DEBUG", None)
    torch.set_num_threads(1)
    bad = total = 0
    for name in given.kinds:
        count = -(-given.count // len(given.kinds))
        tally = series(KINDS[name], count, given.seed, lambda line, name=name: print(f"{name}, {line}", flush=True))
        print(f"{name:12}{count:7}  {dict(tally)}", flush=True)
        bad, total = bad + count - tally["result"] - tally["sentence"], total + count
    print(f"{total} mutations, {bad} answers that nobody wrote: {1000 * bad / total:.2f} in 1,000")
    sys.exit(1000 * bad >= total)


if __name__ == "__main__":
    main()
