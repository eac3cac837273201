"""report.html: what there is to know of a run, or of several side by side, on one page that opens anywhere."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ndformer.framework import foreign
from ndformer.framework.engine.config import kept
from ndformer.framework.engine.config.differences import changes
from ndformer.framework.engine.config.load import load
from ndformer.framework.engine.config.shipped import CONFIGS
from ndformer.framework.engine.config.text import as_argument, spelled
from ndformer.framework.engine.studies.interval import Summary
from ndformer.framework.engine.training import checkpoint
from ndformer.framework.engine.training.console import LOG
from ndformer.framework.engine.training.work_dir import RESULTS
from ndformer.framework.errors import DataError
from ndformer.framework.pictures.page import Markup, element, folded, joined, page, picture, table

Cards = Mapping[str, Any]  # PIL images of samples by what they say, those with most mistakes first
APART = ("seed", "fold")  # of runs of one kind, what their configs may say differently
FIRST = ("curves.png", "confusion_matrix.png")  # of pictures, those to see first
SIZE, PNG = 2**22, b"\x89PNG\r\n"  # bytes of a picture that a page takes in, and how it begins
PERCENT = ("accuracy", "mAP", "mIoU", "top")


@dataclass(frozen=True)
class Told:
    """What a run's folder says of it."""

    folder: Path
    results: dict[str, Any]
    config: dict[str, Any]
    data: dict[str, Any]  # fingerprints by split
    began: str  # the first line of its log: versions and the command

    @property
    def kind(self) -> str:
        """What runs of several seeds have in common."""
        dataset = self.config.get("test_dataloader", {}).get("dataset", {})
        apart = dict(seed=None, test_dataloader=None, val_dataloader=None, train_dataloader=None)
        loaders = [self.config.get(f"{split}_dataloader", {}) for split in ("train", "val", "test")]
        plain = [_without(loader, APART) for loader in loaders]
        return json.dumps([dataset.get("type"), plain, {**self.config, **apart}], sort_keys=True, default=str)


def read(folder: Path) -> Told:
    path = folder / RESULTS
    if not path.is_file():
        raise DataError(f"{folder} has no {RESULTS}: name the folder of a run that came to its end")
    try:
        content = foreign.plain_json(path)
    except ValueError:
        content = None
    if not isinstance(content, dict) or not all(_numbers(content.get(part)) for part in ("test", "val")):
        raise DataError(f"{path} is not what a run leaves: train it again")
    best = folder / checkpoint.BEST
    data = checkpoint.load(best).get("data", {}) if best.is_file() else {}
    log = folder / LOG
    began = foreign.content(log).partition(b"\n")[0].decode(errors="replace") if log.is_file() else ""
    began = began if "ndformer" in began else ""  # a link may lead to anything
    return Told(folder, content, kept.read(folder / kept.DATA), data, began)


def _numbers(values: Any) -> bool:
    return isinstance(values, dict) and all(isinstance(one, (int, float)) for one in values.values())


def _without(value: Any, keys: Sequence[str]) -> Any:
    if isinstance(value, dict):
        return {key: _without(one, keys) for key, one in value.items() if key not in keys}
    return [_without(one, keys) for one in value] if isinstance(value, (list, tuple)) else value


def write(path: Path, runs: Sequence[Told], cards: Mapping[Path, Cards] | None = None) -> None:
    """A page of these runs, with cards of samples of those that have some."""
    path.write_text(of_runs(runs, cards or {}), encoding="utf-8")


def of_runs(runs: Sequence[Told], cards: Mapping[Path, Cards]) -> str:
    first = runs[0].results
    title = f"{named(runs[0])} on {first.get('dataset', '')}" if len(runs) == 1 else f"{len(runs)} runs"
    return page(title, _figures(runs), *(part for run in runs for part in _of_run(run, cards, len(runs) > 1)))


def named(run: Told) -> str:
    backbone = run.config.get("model", {}).get("backbone", {})
    return as_argument(backbone.get("encoding")) if isinstance(backbone, dict) else ""


def _figures(runs: Sequence[Told]) -> Markup:
    """Test and validation by metric; runs that differ by their seed alone are one row, with an interval."""
    kinds: dict[str, list[Told]] = {}
    for run in runs:
        kinds.setdefault(run.kind, []).append(run)
    metrics = list(dict.fromkeys(name for run in runs for name in run.results["test"]))
    head = ["encoding", "on", "runs", *(f"test {name}" for name in metrics), "parameters", "minutes each"]
    rows = []
    for some in kinds.values():
        tests = [run.results["test"] for run in some]
        shown = [_summary(name, [test[name] for test in tests if name in test]) for name in metrics]
        minutes = [run.results["minutes"] for run in some if isinstance(run.results.get("minutes"), (int, float))]
        params = some[0].results.get("params", "")
        params = f"{params:,}" if isinstance(params, int) else ""
        spent = f"{sum(minutes) / len(minutes):.1f}" if minutes else ""
        rows.append([named(some[0]), some[0].results.get("dataset", ""), len(some), *shown, params, spent])
    note = "±: the 95 % interval of the mean over runs (Student t). Of one run nobody knows how far chance goes."
    if any(run.results.get("val_is_test") for run in runs):
        note = f"Validation was the test set itself (val_is_test), which flatters. {note}"
    if any(run.results.get("sample") for run in runs):
        note = f"On the generated stand-in: these figures say nothing about the data set of that name. {note}"
    return joined([table(head, rows), element("p", note, class_="note")])


def _summary(name: str, values: Sequence[float]) -> str:
    if not values or not all(map(math.isfinite, values)):
        return "nan" if values else ""
    share = name.startswith(PERCENT) or name.endswith("accuracy")
    found = Summary.of([100 * one for one in values] if share else values)
    return f"{found.mean:.2f}{'' if found.half is None else f' ± {found.half:.2f}'}{' %' * share}"


def _of_run(run: Told, cards: Mapping[Path, Cards], several: bool) -> list[Markup]:
    parts = [element("h2", run.folder.name)] if several else []
    found = sorted(run.folder.glob("*.png"), key=lambda path: (path.name not in FIRST, path.name))
    pictures = {one.stem: foreign.content(one) for one in found if one.is_file() and one.stat().st_size <= SIZE}
    parts += [picture(png, name) for name, png in pictures.items() if png.startswith(PNG)]
    if cards.get(run.folder):
        shown = [picture(card, says) for says, card in cards[run.folder].items()]
        title = element("h3", "Samples of the test set: the most wrong, then the best")
        parts += [title, element("div", *shown, class_="cards")]
    parts += [element("h3", "Data"), _labels(run.data)] if run.data else []
    parts += _config(run)
    return parts


def _labels(data: Mapping[str, Any]) -> Markup:
    """How many samples each split has of each class."""
    splits = [split for split, one in data.items() if isinstance(one.get("classes"), dict)]
    counts: dict[str, dict[str, Any]] = {}
    for split in splits:
        for number, one in data[split]["classes"].items():
            name = str(one.get("name", number)) if isinstance(one, dict) else str(number)
            counts.setdefault(name, {})[split] = one.get("samples", "") if isinstance(one, dict) else ""
    rows = [[name, *(of.get(split, 0) for split in splits)] for name, of in counts.items()]
    whole = ["all", *(data[split].get("samples", "") for split in splits)]
    listed = table(["class", *splits], [*rows, whole])
    return listed if len(rows) <= 40 else folded(f"{len(rows)} classes", listed)


def _config(run: Told) -> list[Markup]:
    parts = []
    base = CONFIGS / Path(str(run.results.get("config", ""))).name
    if base.suffix == ".py" and base.is_file():
        given = load(base).to_dict()
        told = [(at, _short(was), _short(now)) for at, was, now in changes(given, run.config)]
        told = [one for one in told if not one[0].startswith(("sample", "versions"))]
        rows = table(["", base.stem, "this run"], told) if told else element("p", "Nothing.")
        parts += [element("h3", f"How this run differs from {base.name}"), rows]
    parts += [folded("the whole config", element("pre", spelled(run.config)))]
    return (
        [*parts, element("h3", "The command, and the versions that it ran with"), element("pre", run.began)]
        if run.began
        else parts
    )


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:79]}…"
