"""report.html: one self-contained page for a run, or for several runs side by side."""

import math
import re
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mmengine.config import Config

from ndformer.cli import rendered
from ndformer.framework.data.dataset import TEST_IS_VAL
from ndformer.framework.engine.config.differences import changes
from ndformer.framework.engine.config.load import load
from ndformer.framework.engine.config.shipped import CONFIGS
from ndformer.framework.engine.config.text import as_argument, format_config
from ndformer.framework.engine.training.evaluate import Evaluation
from ndformer.framework.engine.training.loading import Loader
from ndformer.framework.model import TokenModel
from ndformer.framework.pictures.runs import attempted
from ndformer.framework.quantity import Quantity
from ndformer.framework.registry import METRICS
from ndformer.framework.system import atomic
from ndformer.lab import run_folder
from ndformer.lab.html import (
    Markup,
    bar,
    columns,
    element,
    folded,
    join_markup,
    page,
    picture,
    png_width,
    section,
    table,
)
from ndformer.lab.interval import Summary, mean
from ndformer.lab.run_folder import RunFolder, is_number

NARROW = 900  # pixels: two pictures of this width fit side by side
CALLED = dict(curves="learning curves", confusion_matrix="confusion matrix", pr_curves="precision and recall")
BEGAN = re.compile(r"(?P<when>[\d-]+ [\d:]+)  (?P<versions>ndformer .*?)  (?P<command>.*)")
KINDS = dict(
    samples="Samples of the test set: the most wrong, then the best",
    attention="Where the last layer looks, on the most wrong one and on the best",
    encoding="What the encoding does, before and after training",
)


def write(path: Path, runs: Sequence[RunFolder]) -> None:
    """Write a page of these runs."""
    atomic.write(path, runs_page(runs))


def write_after_training(
    work_dir: Path, cfg: Config, model: TokenModel, loader: Loader, evaluation: Evaluation
) -> None:
    """Write the page of a run that has just been tested, with pictures; an error is only a warning."""
    with attempted(path := work_dir / "report.html"):
        rendered.write(work_dir, cfg, model, loader, evaluation)
        write(path, [run_folder.read(work_dir)])
        print(path)


def runs_page(runs: Sequence[RunFolder]) -> str:
    if len(runs) == 1:
        (run,) = runs
        title = f"{named(run)} on {run.results.get('dataset', '')}"
        return page(title, *_headline(run), _figures(runs), *_run_details(run))
    sections = [folded(run.folder.name, *_run_details(run)) for run in runs]
    return page(f"{len(runs)} runs", _figures(runs), *_side_by_side(runs), element("h2", "Each of them"), *sections)


def named(run: RunFolder) -> str:
    backbone = run.config.get("model", {}).get("backbone", {})
    return as_argument(backbone.get("encoding")) if isinstance(backbone, dict) else ""


def _headline(run: RunFolder) -> list[Markup]:
    """Return the main metric on the test set, with the number of samples."""
    test = run.results["test"]
    name = next((name for name in test if name in run.results["val"]), next(iter(test), None))
    if name is None:
        return []
    samples = run.data.get("test", {}).get("samples")
    label = f"{in_words(name, [run])}, test set" + (f" ({samples:,} samples)" if isinstance(samples, int) else "")
    return [element("p", element("strong", _summary([test[name]], run.quantity(name))), f" {label}", class_="headline")]


def _figures(runs: Sequence[RunFolder]) -> Markup:
    """Return the table of metrics; runs that differ only in their seed are one row with an interval."""
    kinds: dict[str, list[RunFolder]] = {}
    for run in runs:
        kinds.setdefault(run.kind, []).append(run)
    metrics = list(dict.fromkeys(name for run in runs for name in run.results["test"]))
    words = {name: in_words(name, runs) for name in metrics}
    main = [str(run.results["main_metric"]) for run in runs if "main_metric" in run.results]
    main = [name for name in [*main, *metrics] if any(name in run.results["val"] for run in runs)][:1]
    metric_columns = [f"test, {words[name]}" for name in metrics] + [f"validation, {words[name]}" for name in main]
    head = ["encoding", "on", "runs", *metric_columns, "parameters", "minutes each"]
    rows = []
    for some in kinds.values():
        value_keys = [("test", name) for name in metrics] + [("val", name) for name in main]
        summaries = [
            _summary([run.results[part][name] for run in some if name in run.results[part]], some[0].quantity(name))
            for part, name in value_keys
        ]
        minutes = [run.results["minutes"] for run in some if is_number(run.results.get("minutes"))]
        params = some[0].results.get("params", "")
        params = f"{params:,}" if isinstance(params, int) else ""
        spent = f"{sum(minutes) / len(minutes):.1f}" if minutes else ""
        data = f"{some[0].results.get('dataset', '')}{' (generated)' * bool(some[0].results.get('sample'))}"
        rows.append([named(some[0]), data, len(some), *summaries, params, spent])
    note = (
        "±: the 95 % confidence interval of the mean over runs (Student t). Fewer than 3 runs are too few for an "
        "interval: train more seeds."
    )
    if all(len(some) == 1 for some in kinds.values()):
        note = "One run each: train more seeds to see how much figures vary by chance."
    if any(run.results.get("test_is_val") for run in runs):
        note = f"{TEST_IS_VAL[0].upper()}{TEST_IS_VAL[1:]}. {note}"
    if any(run.results.get("val_is_test") for run in runs):
        note = f"Validation was the test set itself (val_is_test), which flatters. {note}"
    if any(run.results.get("sample") for run in runs):
        note = f"On the generated stand-in: these figures say nothing about the data set of that name. {note}"
    return join_markup([table(head, rows), element("p", note, class_="note")])


def in_words(name: str, runs: Sequence[RunFolder]) -> str:
    """Return the name of a value in words, from its metric if that has one."""
    words: dict[str, str] = {}
    for run in runs:
        for metric in run.config.get("metrics", ()):
            if isinstance(metric, dict) and metric.get("type") in METRICS.all():
                words |= METRICS.get(metric["type"]).words
    task, _, value_name = name.rpartition("/")
    return f"{task}: " * bool(task) + words.get(value_name, value_name.replace("_", " "))


def _summary(values: Sequence[float], quantity: Quantity) -> str:
    if not values or not all(map(math.isfinite, values)):
        return "nan" if values else ""
    return f"{mean(Summary.from_values(values), quantity)} {quantity.symbol}".rstrip()


def _side_by_side(runs: Sequence[RunFolder]) -> list[Markup]:
    """Return the runs' pictures by kind, and the differences between their configs."""
    parts = []
    for name in dict.fromkeys(name for run in runs for name in run.pictures):
        figures = [_caption(run.folder.name, picture(run.pictures[name], name)) for run in runs if name in run.pictures]
        parts += [element("h2", CALLED.get(name, name)), element("div", *figures, class_="beside")]
    for kind, heading in KINDS.items():
        cards = [(run.folder.name, _make_cards(run, kind)) for run in runs]
        figures = [
            _caption(name, *dict.fromkeys((some[0], some[-1]))) for name, some in cards if some
        ]  # first and last
        parts += [element("h2", heading), element("div", *figures, class_="beside")] if figures else []
    differ: dict[str, list[Any]] = {}
    for place, run in enumerate(runs):
        for key, was, now in changes(runs[0].config, run.config):
            differ.setdefault(key, [_short(was)] * len(runs))[place] = _short(now)
    rows = [[key, *values] for key, values in differ.items() if not key.startswith("versions")]
    if rows:
        heads = ["", *(run.folder.name for run in runs)]
        parts += [element("h2", "Differences between their configs"), table(heads, rows)]
    return parts


def _caption(name: str, *inner: Markup) -> Markup:
    return element("figure", *inner, element("figcaption", name))


def _make_cards(run: RunFolder, kind: str) -> list[Markup]:
    samples = [sample for sample in run.rendered if sample.kind == kind]
    return [picture(sample.png, sample.caption) if sample.png else element("p", sample.caption) for sample in samples]


def _run_details(run: RunFolder) -> list[Markup]:
    parts: list[Markup] = []
    data = [section("Data", *_labels(run.data))] if run.data else []
    sections = {
        name: section(CALLED.get(name, name), picture(png, CALLED.get(name, name)))
        for name, png in run.pictures.items()
    }
    wide = [content for name, content in sections.items() if png_width(run.pictures[name]) > NARROW]
    parts += [*wide, columns(*(content for content in sections.values() if content not in wide), *data)]
    for kind, heading in KINDS.items():
        cards = _make_cards(run, kind)
        parts += [element("h3", heading), element("div", *cards, class_=f"cards {kind}")] if cards else []
    return [
        *parts,
        columns(*_differs(run), *_began(run)),
        folded("the whole config", element("pre", format_config(run.config))),
    ]


def _labels(data: Mapping[str, Any]) -> list[Markup]:
    """Return the numbers of samples of each split and class."""
    splits = [split for split, content in data.items() if isinstance(content.get("classes"), dict)]
    counts: dict[str, dict[str, int]] = {}
    for split in splits:
        for number, label in data[split]["classes"].items():
            name = str(label.get("name", number)) if isinstance(label, dict) else str(number)
            samples = label.get("samples", 0) if isinstance(label, dict) else 0
            counts.setdefault(name, {})[split] = samples if isinstance(samples, int) else 0
    sentences = []
    for split in splits:
        numbers = [class_counts[split] for class_counts in counts.values() if split in class_counts]
        like = data[split].get("like")
        kind = f" ({', '.join(map(str, like))})" if isinstance(like, list) and like else ""
        classes = "" if set(counts) == {""} or not numbers else f" in {len(numbers)} classes, {_balance(numbers)}"
        sentences.append(f"{split}{kind}: {data[split].get('samples', sum(numbers))} samples{classes}.")
    maximum = max((max(values.values()) for values in counts.values()), default=1)
    share_bar = lambda values: bar(values.get(splits[0], 0) / max(1, maximum))
    rows = [[name, *(values.get(split, 0) for split in splits), share_bar(values)] for name, values in counts.items()]
    total = ["all", *(data[split].get("samples", "") for split in splits), ""]
    listed = table(["class", *splits, f"of {splits[0]}" if splits else ""], [*rows, total])
    lines = [element("p", line) for line in sentences]
    if set(counts) <= {""}:  # samples of boxes and pixels have many classes each
        return lines
    return [*lines, listed if len(rows) <= 40 else folded(f"{len(rows)} classes", listed)]


def _balance(counts: Sequence[int]) -> str:
    """Return the range of samples per class in words."""
    if min(counts) == max(counts):
        return f"{counts[0]} of each"
    return f"{min(counts)} to {max(counts)} of each, the median is {statistics.median(counts):g}"


def _differs(run: RunFolder) -> list[Markup]:
    base = CONFIGS / Path(str(run.results.get("config", ""))).name
    if base.suffix == ".py" and base.is_file():
        base_config = load(base).to_dict()
        changed = [(key, _short(was), _short(now)) for key, was, now in changes(base_config, run.config)]
        changed = [row for row in changed if not row[0].startswith(("sample", "versions"))]
        rows = table(["", base.stem, "this run"], changed) if changed else element("p", "Nothing.")
        return [section(f"How this run differs from {base.name}", rows)]
    return []


def _began(run: RunFolder) -> list[Markup]:
    """Return start time, environment and command of a run."""
    if not run.began:
        return []
    match = BEGAN.fullmatch(run.began)
    if match is None:
        return [section("The command, and the versions that it ran with", element("pre", run.began))]
    rows = [["began", match["when"]], ["environment", match["versions"]]]
    command = re.sub(r"^\S*tools/(\w+)\.py", r"ndformer \1", match["command"])
    path_note = " with the folder of your module on PYTHONPATH" if run.config.get("custom_imports") else ""
    again = f"To run it again{path_note}, add --overwrite or another --work-dir."
    return [section("The command", element("pre", command), element("p", again), table(["", ""], rows))]


def _short(value: Any) -> str:
    """Return a value in at most 80 characters; a missing one is a dash."""
    text = "–" if value is None else repr(value)
    return text if len(text) <= 80 else f"{text[:79]}…"
