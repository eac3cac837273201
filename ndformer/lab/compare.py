"""Comparisons: the runs of one config with several encodings, seeds, folds and amounts of data, and their outcomes.

runs = plan("configs/mnist_pape.py", ["Sincos", "PaPE(m=8)"], seeds=[0, 1, 2], home=Path("work_dirs/mine"))
for run, end in zip(runs, run_jobs([run.job for run in runs if not run.done], workers=1, threads=2)):
    print(outcome(run, end.error).results)
"""

import argparse
import itertools
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from mmengine.config import Config

from ndformer.cli.program import config_from
from ndformer.framework import foreign
from ndformer.framework.data.dataset import SPLITS
from ndformer.framework.encoding.composed import class_place
from ndformer.framework.engine.building import metrics_with_targets, prepare_data, with_targets
from ndformer.framework.engine.config import saved
from ndformer.framework.engine.config.differences import relevant_changes, settings_digest
from ndformer.framework.engine.config.load import load
from ndformer.framework.engine.config.shipped import config_path
from ndformer.framework.engine.config.text import as_argument, parse_option
from ndformer.framework.engine.run import build_loader
from ndformer.framework.engine.training import checkpoint
from ndformer.framework.engine.training.leakage import check_leakage
from ndformer.framework.errors import ConfigError, DataError
from ndformer.framework.evaluation.metric import find_quantity, main_metric
from ndformer.framework.model import with_declared_periods
from ndformer.framework.quantity import Quantity
from ndformer.framework.registry import MODALITIES
from ndformer.framework.registry.signature import arguments
from ndformer.lab import paired
from ndformer.lab.jobs import Job, train_once

_AMOUNT = "train_dataloader.dataset.per_class"
ANEW = "Remove its folder, and the same command runs it again"


@dataclass(frozen=True)
class Run:
    """One training run of a comparison."""

    encoding: str  # as written on the command line
    per_class: int | None
    seed: int
    folder: Path
    arguments: list[str]  # of tools/train.py, without the folder
    cfg: Config  # the config that these arguments give
    fold: int | None = None
    point: Mapping[str, str] = field(default_factory=dict)  # of a grid: option -> value
    sample: bool = False  # on generated data

    def __str__(self) -> str:
        amount = "" if self.per_class is None else f"{self.per_class} per class, "
        point = "".join(f"{option}, " for option in as_options(self.point))
        return f"{self.encoding}, {amount}{point}seed {self.seed}{'' if self.fold is None else f', fold {self.fold}'}"

    @property
    def row(self) -> tuple[str, int | None]:
        """The row of the table that this run belongs to."""
        return self.encoding, self.per_class

    @property
    def repeat(self) -> int | str:
        """The repetition: means are over it, and gains are paired by it."""
        return self.seed if self.fold is None else f"seed {self.seed}, fold {self.fold}"

    @property
    def class_token(self) -> str:
        """The position of the model's class token, as `class_at` names it; '' without one."""
        return _class_token(self.cfg.model) if self.cfg and "model" in self.cfg else ""

    @property
    def settings(self) -> str:
        """A digest of all that affects its results, the same in another folder or on another machine."""
        return settings_digest(self.cfg.to_dict() | dict(is_sample=self.sample))

    @property
    def done(self) -> bool:
        return (self.folder / "results.json").is_file()

    @property
    def begun(self) -> bool:
        return checkpoint.exists(self.folder / checkpoint.LAST)

    @property
    def job(self) -> Job:
        """The job that starts or resumes this run."""
        command = ["tools/train.py", *self.arguments, "--work-dir", str(self.folder), *["--resume"] * self.begun]
        work = partial(train_once, self.cfg, self.folder, self.sample, with_report=True)
        return Job(self.folder, work, command, kind=self.per_class)


@dataclass(frozen=True)
class Outcome:
    """The results of a run, or the reason why it has none."""

    run: Run
    results: dict[str, Any] | None  # the content of results.json
    failed: str = ""  # why there are no results, or why they do not count

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
    weights: str | None = None,
    keep_encoding: bool = False,
) -> list[Run]:
    """Return all runs, with checked configs: every encoding once before any with another seed or fold.

    An encoding of None is the config's own. `points` are those of a grid (grid.py); `weights` names pretrained ones.
    """
    reserved = {} if None in folds else {"dataset.fold": "--folds"}
    reserved |= {} if None in amounts else {_AMOUNT: "--per-class"}
    _check_options(options, points[0], reserved)
    short = [_short(encoding or "run") for encoding in encodings]
    for i, name in enumerate(short):
        if name in short[:i]:
            raise ConfigError(f"--encodings names {encodings[i]} twice. Remove one")
    path = config_path(str(config))
    shared = dict(
        sample=sample, data_root=data_root, trust_config=trusted, weights=weights, keep_encoding=keep_encoding
    )
    titles: dict[str | None, str] = {encoding: encoding for encoding in encodings if encoding is not None}
    if None in encodings:  # the name of the config's own, without the point of a grid
        parsed = argparse.Namespace(config=path, encoding=None, cfg_options=list(options), **shared)
        titles[None] = as_argument(config_from(parsed).model.backbone.get("encoding"))
    runs = []
    for seed, fold, point in itertools.product(dict.fromkeys(seeds), dict.fromkeys(folds), points):
        for amount, (encoding, name) in itertools.product(dict.fromkeys(amounts), zip(encodings, short)):
            changes = [] if amount is None else [f"{_AMOUNT}={amount}"]
            changes += [] if fold is None else [f"dataset.fold={fold}"]
            changes = [*options, *changes, *as_options(point), f"seed={seed}"]
            parsed = argparse.Namespace(config=path, encoding=encoding, cfg_options=changes, **shared)
            cfg = _with_targets(config_from(parsed), sample)
            part = ("" if amount is None else f"_n{amount}") + ("" if fold is None else f"_fold{fold}")
            part += "".join(f"_{_short(option).removeprefix('optimizer.')}" for option in as_options(point))
            folder = home / f"{name}{part}_seed{seed}"
            runs.append(Run(titles[encoding], amount, seed, folder, _arguments(parsed), cfg, fold, point, sample))
    if len({run.folder for run in runs}) < len(runs):
        raise ConfigError("--grid has values that differ only in punctuation: their runs would share a folder")
    return runs


def _with_targets(cfg: Config, sample: bool) -> Config:
    """Return the config with the names of targets in its metrics, by which tables name their columns."""
    if any(metrics_with_targets(cfg)):
        prepare_data(cfg, sample)
    return with_targets(cfg)


def _check_options(options: Sequence[str], point: Mapping[str, str], reserved: Mapping[str, str]) -> None:
    """Raise if an option sets a key that another argument is for."""
    reserved = {"seed": "--seeds"} | dict(reserved)
    fixed = {".".join(parse_option(option)[0]) for option in options}
    for key, argument in (dict.fromkeys(point, "--grid") | reserved).items():
        if key in fixed:
            raise ConfigError(f"--cfg-options gives {key}: that is for {argument}")
        if key in point and key in reserved | {_AMOUNT: "--per-class"}:
            raise ConfigError(f"--grid gives {key}: that is for {argument}")


def _arguments(args: argparse.Namespace) -> list[str]:
    """Return the arguments of tools/train.py that train the same, for the log and compare.json."""
    words = [str(args.config), *([] if args.encoding is None else ["--encoding", args.encoding])]
    words += [] if args.weights is None else ["--weights", args.weights]
    words += ["--keep-encoding"] * args.keep_encoding + ["--sample"] * args.sample
    words += [] if args.data_root is None else ["--data-root", args.data_root]
    return words + ["--trust-config"] * args.trust_config + ["--cfg-options", *args.cfg_options]


def _class_token(model: Mapping[str, Any]) -> str:
    """Return where the class tokens are; 'auto' is resolved for the model's encoding."""
    places = []
    encoding = with_declared_periods(model["backbone"], model["modalities"]).get("encoding")
    for adapter in model["modalities"].values():
        parameters, _ = arguments(MODALITIES.get(adapter["type"]))
        options = {
            name: adapter.get(name, parameters[name].default)
            for name in ("class_token", "class_at")
            if name in parameters
        }
        if "class_at" in options and options.get("class_token", True):
            auto = options["class_at"] == "auto"
            places.append(class_place(encoding) if auto else options["class_at"])
    return ", ".join(dict.fromkeys(places))


def as_options(point: Mapping[str, str]) -> list[str]:
    """Return a grid point as options of the command line."""
    return [f"{key}={value}" for key, value in point.items()]


def _short(encoding: str) -> str:
    """Return PaPE(m=8) as part of a folder name: PaPE_m=8."""
    return "_".join(re.findall(r"[\w.=-]+", encoding))


def check_folder(run: Run, trusted: bool = False) -> str:
    """Raise if the folder contains a run with other settings; return an error text if its config cannot be read.

    Nothing in the folder is executed, unless it is `trusted`.
    """
    path = run.folder / saved.CODE
    if not (run.done or run.begun):
        return ""
    try:
        old = load(path, trusted=trusted).to_dict()
    except ConfigError as error:
        return f"damaged: {path} cannot be read ({str(error).splitlines()[0]}). {ANEW}"
    changed = [
        f"{key} was {_cut(was)} and would be {_cut(now)}" for key, was, now in relevant_changes(old, run.cfg.to_dict())
    ]
    if changed:
        more = f" and {len(changed) - 3} more" if len(changed) > 3 else ""
        raise DataError(
            f"{run.folder} was made with other settings: {', '.join(changed[:3])}{more}. "
            "Name another --work-dir, or remove that folder"
        )
    return ""


def _cut(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:40]}..."


def check_data(runs: Sequence[Run], sample: bool) -> None:
    """Generate the sample if requested, and raise if data is missing or splits overlap."""
    run = max(runs, key=lambda run: run.per_class or 0)
    prepare_data(run.cfg, sample)
    check_leakage(run.cfg, {split: build_loader(run.cfg, split).data for split in SPLITS})


def outcome(run: Run, failed: str = "") -> Outcome:
    """Return the outcome of a run, read from its folder."""
    if not run.done:
        return Outcome(run, None, failed or "not finished yet")
    try:
        results = _results(run)
        losses = _losses(run) if run.begun else []
        _ = paired.load(run.folder)  # raises if it is damaged
    except DataError as error:
        return Outcome(run, None, f"damaged: {error}")
    if losses and not math.isfinite(losses[-1]):
        first = next(i for i, loss in enumerate(losses, 1) if not math.isfinite(loss))
        return Outcome(run, results, f"diverged: its training loss is {losses[-1]} from epoch {first} on")
    name = main_metric(run.cfg.metrics)[0]
    if not math.isfinite(results["test"][name]):
        return Outcome(run, results, f"its test {name} is {results['test'][name]}")
    return Outcome(run, results)


def _results(run: Run) -> dict[str, Any]:
    """Return results.json, or raise if it lacks what tables need."""
    path, needed = run.folder / "results.json", main_metric(run.cfg.metrics)[0]
    content: Any = None
    try:
        content = foreign.plain_json(path)
        numbers = [*content["test"].values(), content["test"][needed], content["minutes"], content["params"]]
        numbers += [content["val"][needed]] if run.point else []
        is_complete = all(isinstance(number, (int, float)) for number in numbers) and math.isfinite(content["minutes"])
        _ = [Quantity.parse(quantity) for quantity in content.get("quantities", {}).values()]
    except (DataError, ValueError, LookupError, TypeError, AttributeError, OverflowError):
        is_complete = False
    if not is_complete:
        raise DataError(f"{path} is not a file that a run writes. {ANEW}")
    return content


def _losses(run: Run) -> list[float]:
    """Return the training loss of each epoch."""
    path = run.folder / "last.pth"
    history = checkpoint.load(path).get("history")
    try:
        return [float(epoch["loss"]) for epoch in history or ()]
    except (LookupError, TypeError, ValueError):
        raise DataError(f"{path} has no readable history. {ANEW}") from None
