"""Edit configs at random: an edit must raise a written error before data is read, or leave a valid config.

python -m tests.soak.config_edits --count 2000 --trained 60
"""

import argparse
import contextlib
import copy
import io
import math
import random
import tempfile
import traceback
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

from mmengine.config import Config

from ndformer.framework.data.dataset import Dataset
from ndformer.framework.engine.config.load import _finished, check, load
from ndformer.framework.engine.run import train
from ndformer.framework.engine.training import loading
from ndformer.framework.errors import ConfigError, DataError, UnknownNameError
from ndformer.framework.registry import DATASETS
from tests.soak import tiny

CONFIGS = Path(__file__).parents[2] / "configs"
NAMES: dict[str, str | None] = {  # config -> --encoding
    "cifar10_pape": None,
    "imagenet1k_pape": 'PaPERI(preset="pape_repo")',
    "coco_vitt_pape": 'LookHere(preset="pape_repo")',
    "ade20k_pape": 'AxialRoPE(preset="pape_repo")',
    "mnist_pape": "ALiBi",
    "nmnist_small": None,
    "gen1_pape": None,
    "dvsgesture_pape": "Sincos",
    "modelnet40_pape": None,
    "modelnet40_plain_pape": "RoPEMixed",
    "scannet_pape": "NoPE",
    "ucf101_pape": None,
    "joint_sample": None,
    "paired_sample": None,
}
FULL = dict(
    param_groups=dict(layer_decay=0.9, no_decay=True, lr_factors=dict(backbone=0.5)),
    ema=dict(decay=0.9),
    early_stopping=dict(patience=3),
)
SIGNED = {"start", "ignore", "until", "mean", "plane", "missing", "labels", "beta2_decay"}  # may be below 0
HUGE = (10**30, 10**9 + 1, 1e30, -(10**30))
TOLD = (ConfigError, DataError, UnknownNameError, ValueError, TypeError, OSError, ImportError)
Place = tuple[Any, ...]


class Edit(NamedTuple):
    what: str
    at: Place
    value: Any

    def __str__(self) -> str:
        value = "" if self.value is put else f" = {self.value!r:.60}"
        return f"{self.what} {'.'.join(map(str, self.at))}{value}"


def places(value: Any, at: Place = ()) -> Iterator[Place]:
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, (list, tuple)) else ()
    for key, one in inside:
        yield (*at, key)
        yield from places(one, (*at, key))


def found(cfg: Any, at: Place) -> Any:
    for key in at:
        cfg = cfg[key]
    return cfg


def put(cfg: Any, at: Place, value: Any) -> Any:
    """Return a copy with another value at a place, or without the place if the value is `put` itself."""
    if not at:
        return value
    copied = copy.copy(cfg) if isinstance(cfg, dict) else list(cfg)
    if len(at) == 1 and value is put:
        del copied[at[0]]
    else:
        copied[at[0]] = put(cfg[at[0]], at[1:], value)
    return tuple(copied) if isinstance(cfg, tuple) else copied


def renamed(key: str, rng: random.Random) -> str:
    i = rng.randrange(len(key))
    return rng.choice([key[:i] + key[i + 1 :], key[:i] + "q" + key[i:], key + "s", key.upper()]) or "q"


def edit(cfg: dict[str, Any], rng: random.Random) -> tuple[Edit, dict[str, Any]]:
    """Return a random edit and the edited config; numbers change most often."""
    everywhere = list(places(cfg))
    numbers = [at for at in everywhere if type(found(cfg, at)) in (int, float)]
    what = rng.choice(["number"] * 5 + ["right", "kind", "empty", "delete", "rename", "add", "wrap", "type"])
    at = rng.choice(numbers if what in ("number", "right") else everywhere)
    old = found(cfg, at)
    if what == "number":
        value = rng.choice([0, -1, -0.5, 0.5, 1, 2, 1.5, math.nan, math.inf, -math.inf, -old, *HUGE])
    elif what == "right":
        value = old + rng.choice([1, 2]) if type(old) is int else old * rng.choice([0.5, 0.9])
    elif what == "kind":
        value = rng.choice([None, True, "x", "1", 3, 0.25, [1], dict(a=1), [None], "None"])
    elif what == "empty":
        value = rng.choice(["", [], {}, ()])
    elif what == "delete":
        value = put
    elif what == "rename":
        at = rng.choice([place for place in everywhere if isinstance(place[-1], str)])
        outer, name = at[:-1], renamed(at[-1], rng)
        rest = {key: value for key, value in found(cfg, outer).items() if key != at[-1]}
        return Edit(what, (*outer, name), found(cfg, at)), put(cfg, outer, rest | {name: found(cfg, at)})
    elif what == "add":
        at = rng.choice([place for place in everywhere if isinstance(found(cfg, place), dict)])
        value = found(cfg, at) | {rng.choice(["depth", "quux", "p", "type", "", "lr"]): rng.choice([3, "x", None, 0.5])}
    elif what == "wrap":
        value = rng.choice([[old], dict(type=old), dict(x=old), (old, old)])
    else:
        at = rng.choice([place for place in everywhere if place[-1] == "type"])
        value = rng.choice(["", "x", "os.system", "PaPE", "Accuracy", "Adam", "Flip", ".", "a b", "SGD", "NoPE"])
    return Edit(what, at, value), put(cfg, at, value)


def out_of_range(one: Edit) -> bool:
    """Return whether an accepted number is meaningless, by rules that do not depend on signatures."""
    if type(one.value) not in (int, float):
        return False
    signed = SIGNED & set(map(str, one.at))
    return not math.isfinite(one.value) or abs(one.value) > 10**12 or (one.value < 0 and not signed)


class Reached(BaseException):
    """Raised in place of reading data."""


def reach(*given: Any, **named: Any) -> Any:
    raise Reached


def meant(error: BaseException) -> bool:
    """Return whether the error message was written by us: the last line of the traceback is a `raise`."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return isinstance(error, TOLD) and (last.line or "").startswith("raise")


def outcome(cfg: dict[str, Any], one: Edit, folder: Path, whole: bool) -> str:
    """Check the config as print_config does, then train up to the first read of data, or to the end if `whole`."""
    try:
        cfg = _finished(cfg)
        check(cfg)
    except ConfigError:
        return "refused by the checker"
    except Exception as error:
        return f"TRACEBACK in the checker: {one}: {type(error).__name__}: {error}"
    if out_of_range(one):
        return f"NONSENSE taken: {one}"
    opened: list[int] = []
    trip = contextlib.nullcontext() if whole else mock.patch.object(loading, "build_dataset", reach)
    raw = Dataset.raw

    def read(self: Dataset, *given: Any) -> Any:
        opened.append(1)
        return raw(self, *given)

    try:
        with trip, mock.patch.object(Dataset, "raw", read), contextlib.redirect_stdout(io.StringIO()):
            train(Config(copy.deepcopy(cfg)), folder / "run")
        return "trained"
    except Reached:
        return "taken, as far as the data"
    except Exception as error:
        when = "AFTER data was read" if opened else "before data"
        if meant(error):
            return f"told in train, {when}" + (f": {one}: {error!s:.150}" if opened else "")
        return f"TRACEBACK in train, {when}: {one}: {type(error).__name__}: {error!s:.150}"


def bases(names: Iterable[str]) -> dict[str, dict[str, Any]]:
    cfgs = {name: load(CONFIGS / f"{name}.py", encoding=NAMES[name], sample=True).to_dict() for name in names}
    return {name: cfg | {key: value for key, value in FULL.items() if cfg[key] is None} for name, cfg in cfgs.items()}


def series(cfgs: dict[str, dict[str, Any]], count: int, seed: int, whole: bool = False) -> Counter[str]:
    rng, told = random.Random(seed), Counter[str]()
    for _ in range(count):
        name = rng.choice(sorted(cfgs))
        one, cfg = edit(cfgs[name], rng)
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            said = outcome(cfg, one, Path(folder), whole)
        told[said if said[0].islower() and ": " not in said else f"{name}: {said}"] += 1
    return told


def trained(count: int, seed: int) -> Counter[str]:
    """Edit the config of a training run of a second, and train to its end."""
    tiny.register()
    cfg = load_tiny()
    try:
        with (
            mock.patch("ndformer.framework.pictures.runs.curves"),
            mock.patch("ndformer.framework.pictures.runs.confusion_matrix"),
        ):
            return series({"tiny": cfg}, count, seed, whole=True)
    finally:
        DATASETS.module_dict.pop("SoakSquares")


def load_tiny() -> dict[str, Any]:
    return _finished(tiny.config(train_cfg=dict(max_epochs=1, accumulate=3, clip_grad=1.0, amp=None)).to_dict())


def failed(told: Counter[str]) -> list[str]:
    return [said for said in told if any(word in said for word in ("TRACEBACK", "NONSENSE"))]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=2000, help="edits, of shipped configs, as far as the data")
    parser.add_argument("--trained", type=int, default=60, help="edits of a tiny run, to its end")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    told = series(bases(NAMES), given.count, given.seed) + trained(given.trained, given.seed)
    for said, times in sorted(told.items(), key=lambda one: -one[1]):
        print(f"{times:6}  {said}")
    print(f"{given.count + given.trained} edits: {len(failed(told))} tracebacks or nonsense")
    return bool(failed(told))


if __name__ == "__main__":
    raise SystemExit(main())
