"""One config under several encodings, seeds, folds, amounts of data: what runs there are, and what came of them.

runs = plan("configs/mnist_pape.py", ["Sincos", "PaPE(m=8)"], seeds=[0, 1, 2], home=Path("work_dirs/mine"))
for end in train_all(runs, [sys.executable, "tools/train.py"], jobs=2, threads=1):     of train_all.py
    print(end.outcome.run, end.outcome.failed or end.outcome.results)
"""

import argparse
import itertools
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mmengine.config import Config

from ndformer.framework import foreign
from ndformer.framework.data.dataset import SPLITS
from ndformer.framework.encoding.composed import class_place
from ndformer.framework.engine.building import prepare_data
from ndformer.framework.engine.config import saved
from ndformer.framework.engine.config.differences import that_matter
from ndformer.framework.engine.config.load import load
from ndformer.framework.engine.config.text import as_argument, parse_option
from ndformer.framework.engine.programs.cli import config_arguments, config_from, weights_arguments
from ndformer.framework.engine.run import build_loader
from ndformer.framework.engine.training import checkpoint
from ndformer.framework.engine.training.leakage import check_apart
from ndformer.framework.errors import ConfigError, DataError
from ndformer.framework.evaluation.metric import find_quantity, main_metric
from ndformer.framework.quantity import Quantity
from ndformer.framework.registry import MODALITIES
from ndformer.framework.registry.signature import arguments

ANEW = "without its folder the same command runs it again"


@dataclass(frozen=True)
class Run:
    """One cell of the table."""

    encoding: str  # as on the command line
    per_class: int | None
    seed: int
    folder: Path
    arguments: list[str]  # of the training program, but for the folder
    cfg: Config  # what they come to
    fold: int | None = None
    point: Mapping[str, str] = field(default_factory=dict)  # of a grid: the values of its options

    def __str__(self) -> str:
        amount = "" if self.per_class is None else f"{self.per_class} per class, "
        point = "".join(f"{option}, " for option in written(self.point))
        return f"{self.encoding}, {amount}{point}seed {self.seed}{'' if self.fold is None else f', fold {self.fold}'}"

    @property
    def row(self) -> tuple[str, int | None]:
        """Which one of the table's."""
        return self.encoding, self.per_class

    @property
    def repeat(self) -> int | str:
        """Which one of those that a mean is over; gains are paired by it."""
        return self.seed if self.fold is None else f"seed {self.seed}, fold {self.fold}"

    @property
    def class_token(self) -> str:
        """The position of the model's class token, in the words of `class_at`; '' without one."""
        return _class_token(self.cfg.model) if self.cfg and "model" in self.cfg else ""

    @property
    def done(self) -> bool:
        return (self.folder / "results.json").is_file()

    @property
    def begun(self) -> bool:
        return (self.folder / "last.pth").is_file()


@dataclass(frozen=True)
class Outcome:
    run: Run
    results: dict[str, Any] | None  # as in results.json
    failed: str = ""  # why there are none, or none that count

    def quantity(self, name: str) -> Quantity:
        """Return the quantity of a value: as the run measured it, else as its config declares it."""
        measured = (self.results or {}).get("quantities", {})
        return Quantity.parse(measured[name]) if name in measured else find_quantity(self.run.cfg.metrics, name)


def plan(
    config: str | Path,
    encodings: Sequence[str | None],
    seeds: Sequence[int],
    home: Path,
    amounts: Sequence[int | None] = (None,),
    options: Sequence[str] = (),
    sample: bool = False,
    data_root: str | None = None,
    trusted: bool = False,
    folds: Sequence[int | None] = (None,),
    points: Sequence[Mapping[str, str]] = ({},),
    weights: Sequence[str] = (),
) -> list[Run]:
    """All runs, checked; every encoding once before any is repeated with another seed or fold. None: the config's own
    encoding. `points`: of a grid, see grid.py; `weights`: the arguments that name pretrained ones."""
    given = {"seed": "--seeds", "train_dataloader.dataset.per_class": "--per-class"}
    given |= {} if None in folds else {"dataset.fold": "--folds"}
    fixed = {".".join(parse_option(option)[0]) for option in options}
    for key, own in (dict.fromkeys(points[0], "--grid") | given).items():
        if key in fixed:
            raise ConfigError(f"--cfg-options gives {key}: that is for {own}")
        if key in points[0] and key in given:
            raise ConfigError(f"--grid gives {key}: that is for {own}")
    short = [_short(encoding or "run") for encoding in encodings]
    for i, name in enumerate(short):
        if name in short[:i]:
            raise ConfigError(f"--encodings names {encodings[i]} twice: leave one out")
    runs = []
    for seed, fold, point in itertools.product(dict.fromkeys(seeds), dict.fromkeys(folds), points):
        for amount in dict.fromkeys(amounts):
            for encoding, name in zip(encodings, short):
                more = [] if amount is None else [f"train_dataloader.dataset.per_class={amount}"]
                more += [] if fold is None else [f"dataset.fold={fold}"]
                more += written(point)
                chosen = [] if encoding is None else ["--encoding", encoding]
                words = [str(config), *chosen, *weights, *(["--sample"] if sample else [])]
                words += [] if data_root is None else ["--data-root", data_root]
                words += ["--trust-config"] if trusted else []
                words += ["--cfg-options", *options, *more, f"seed={seed}"]
                part = ("" if amount is None else f"_n{amount}") + ("" if fold is None else f"_fold{fold}")
                part += "".join(f"_{_short(option).removeprefix('optimizer.')}" for option in written(point))
                cfg = _config(words)
                called = encoding or as_argument(cfg.model.backbone.get("encoding"))
                runs.append(Run(called, amount, seed, home / f"{name}{part}_seed{seed}", words, cfg, fold, point))
    if len({run.folder for run in runs}) < len(runs):
        raise ConfigError("--grid has values that only signs tell apart: their runs would share a folder")
    return runs


def _class_token(model: Mapping[str, Any]) -> str:
    """'auto' is what it comes to for the model's encoding."""
    found = []
    for adapter in model["modalities"].values():
        known, _ = arguments(MODALITIES.get(adapter["type"]))
        given = {name: adapter.get(name, known[name].default) for name in ("class_token", "class_at") if name in known}
        if "class_at" in given and given.get("class_token", True):
            auto = given["class_at"] == "auto"
            found.append(class_place(model["backbone"].get("encoding")) if auto else given["class_at"])
    return ", ".join(dict.fromkeys(found))


def written(point: Mapping[str, str]) -> list[str]:
    """As options of the command line."""
    return [f"{key}={value}" for key, value in point.items()]


def _short(encoding: str) -> str:
    """PaPE(m=8) as a part of a folder's name: PaPE_m=8."""
    return "_".join(re.findall(r"[\w.=-]+", encoding))


def _config(arguments: Sequence[str]) -> Config:
    """What the training program makes of its arguments."""
    parser = argparse.ArgumentParser()
    config_arguments(parser)
    weights_arguments(parser)
    return config_from(parser.parse_args(arguments))


def check_folder(run: Run, trusted: bool = False) -> str:
    """An error unless the folder is free, or holds a run of these very settings; nothing in it is run, unless it is
    `trusted`. A sentence comes back where its config is damaged, so that nobody knows of what it is."""
    path = run.folder / saved.CODE
    if not (run.done or run.begun):
        return ""
    try:
        old = load(path, trusted=trusted).to_dict()
    except ConfigError as error:
        return f"damaged: {path} cannot be read ({str(error).splitlines()[0]}); {ANEW}"
    changed = [f"{at} was {was!r:.40} and would be {now!r:.40}" for at, was, now in that_matter(old, run.cfg.to_dict())]
    if changed:
        more = f" and {len(changed) - 3} more" if len(changed) > 3 else ""
        raise DataError(
            f"{run.folder} was made with other settings: {', '.join(changed[:3])}{more}. "
            "Name another --work-dir, or take that folder away"
        )
    return ""


def check_data(runs: Sequence[Run], sample: bool) -> None:
    """Make the sample if it is wanted, and read the lists of all sets once: what is missing is missing for all."""
    run = max(runs, key=lambda run: run.per_class or 0)
    prepare_data(run.cfg, sample)
    check_apart(run.cfg, {split: build_loader(run.cfg, split).data for split in SPLITS})


def outcome(run: Run, failed: str = "") -> Outcome:
    """What is in a run's folder now."""
    if not run.done:
        return Outcome(run, None, failed or "not finished yet")
    try:
        results = _results(run)
        losses = _losses(run) if run.begun else []
    except DataError as error:
        return Outcome(run, None, f"damaged: {error}")
    if losses and not math.isfinite(losses[-1]):
        first = next(i for i, loss in enumerate(losses, 1) if not math.isfinite(loss))
        return Outcome(run, results, f"diverged: its training loss is {losses[-1]} from epoch {first} on")
    return Outcome(run, results)


def _results(run: Run) -> dict[str, Any]:
    """As tables need them, or a sentence: the file may be half of one, or somebody else's."""
    path, needed = run.folder / "results.json", main_metric(run.cfg.metrics)[0]
    content: Any = None
    try:
        content = foreign.plain_json(path)
        numbers = [*content["test"].values(), content["test"][needed], content["minutes"], content["params"]]
        numbers += [content["val"][needed]] if run.point else []
        whole = all(isinstance(one, (int, float)) for one in numbers) and math.isfinite(content["minutes"])
        _ = [Quantity.parse(one) for one in content.get("quantities", {}).values()]
    except (DataError, ValueError, LookupError, TypeError, AttributeError, OverflowError):
        whole = False
    if not whole:
        raise DataError(f"{path} is not what a run writes; {ANEW}")
    return content


def _losses(run: Run) -> list[float]:
    """Of its epochs."""
    path = run.folder / "last.pth"
    history = checkpoint.load(path).get("history")
    try:
        return [float(epoch["loss"]) for epoch in history or ()]
    except (LookupError, TypeError, ValueError):
        raise DataError(f"{path} has no history that can be read; {ANEW}") from None
