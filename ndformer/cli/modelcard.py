"""A folder to publish on the Hugging Face hub or elsewhere: model card, weights, config, results.

write(folder, cfg, content, run, "cc-by-4.0")      ndformer.load(folder) loads the model from it
"""

import html
import json
import re
from pathlib import Path
from typing import Any

from mmengine.config import Config

from ndformer.framework import foreign
from ndformer.framework.engine.building import dataset_name, encoding_name
from ndformer.framework.engine.config import saved
from ndformer.framework.engine.training import exported
from ndformer.framework.engine.training.work_dir import RESULTS
from ndformer.framework.errors import DataError
from ndformer.framework.evaluation.metric import find_quantity
from ndformer.framework.quantity import Quantity
from ndformer.framework.system import atomic
from ndformer.version import __version__

CARD = "README.md"
TASKS = {  # the hub's name of a task, by modality and metric
    ("image", "Accuracy"): "image-classification",
    ("image", "CocoMetric"): "object-detection",
    ("image", "MeanIoU"): "image-segmentation",
    ("video", "Accuracy"): "video-classification",
}
MAX_CLASSES = 1000  # in a card


def can_write(folder: Path) -> None:
    """Make the parent folder, and raise unless `folder` is new, empty or a published folder."""
    atomic.make_parent(folder)
    if folder.exists() and not (folder.is_dir() and (not any(folder.iterdir()) or (folder / exported.FILE).is_file())):
        raise DataError(f"{folder} already contains other files: give a new folder")


def write(folder: Path, cfg: Config, content: dict[str, Any], run: Path, license: str) -> None:
    """Write the folder from the `content` of a checkpoint, and the results in the folder `run`."""
    folder.mkdir(exist_ok=True)
    exported.export(folder / exported.FILE, {k: v for k, v in content.items() if k != "config"})
    saved.write(folder, _without_paths(cfg.to_dict()))
    results = _results(run / RESULTS)
    if results:
        atomic.write(folder / RESULTS, json.dumps(results, indent=2) + "\n")
    atomic.write(folder / CARD, card(folder.name, cfg, content, results, license))


def card(name: str, cfg: Config, content: dict[str, Any], results: dict[str, Any], license: str) -> str:
    """Return the card as Markdown; names of classes and files are escaped."""
    encoding, data = encoding_name(cfg), dataset_name(cfg)
    modalities = list(cfg.model.modalities)
    task = TASKS.get((modalities[0], cfg.metrics[0].type)) if len(modalities) == 1 else None
    dataset = f"{data}, a generated stand-in" if results.get("sample") else data
    values = {key: value for key, value in results.get("test", {}).items() if isinstance(value, (int, float))}
    head: dict[str, Any] = dict(library_name="ndformer", license=license)
    head |= dict(pipeline_tag=task) if task else {}
    head |= dict(tags=["ndformer", *modalities, encoding], metrics=sorted(values))
    if values:
        metrics = [dict(type=key, value=value) for key, value in values.items()]
        result = dict(task=dict(type=task or "other"), dataset=dict(name=dataset, type=data.lower()), metrics=metrics)
        head["model-index"] = [dict(name=name, results=[result])]
    quantities = {name: Quantity.parse(value) for name, value in results.get("quantities", {}).items()}
    quantity = lambda key: quantities[key] if key in quantities else find_quantity(cfg.metrics, key)
    rows = {key: quantity(key).log_text(value) for key, value in values.items()}
    val = " (the val split of the data, which has no test split)" if results.get("test_is_val") else ""
    front = "".join(f"{key}: {json.dumps(value)}\n" for key, value in head.items())  # JSON is YAML
    parts = [
        f"---\n{front}---\n\n# {plain(name)}\n",
        f"{plain(encoding)} on {plain(dataset)}, a model of ndformer {__version__}.\n",
        _use(name),
        _table(
            "Results", f"On the test set{val}, evaluated once with the checkpoint that is best on validation.", rows
        ),
        _table("Training", "", _training(cfg, content, results)),
        _data(content),
    ]
    return "\n".join(part for part in parts if part)


def plain(text: Any) -> str:
    """Escape a text for Markdown: no tag, link, table row or line break remains."""
    one_line = " ".join("".join(c if c.isprintable() else " " for c in str(text)).split())
    return re.sub(r"(^-|[\\`*_{}\[\]()#+!|~$:@])", r"\\\1", html.escape(one_line, quote=False))


def _use(name: str) -> str:
    return (
        "```python\nimport ndformer\n\n"
        f"model = ndformer.load({json.dumps(name)})  # this folder\n"
        'print(model("a-file-of-yours"))\n```\n'
    )


def _table(title: str, sentence: str, rows: dict[str, Any]) -> str:
    if not rows:
        return ""
    lines = [f"| {plain(key)} | {plain(v)} |" for key, v in rows.items()]
    return "\n".join([f"## {title}\n", *([sentence, ""] if sentence else []), "| | |", "|---|---|", *lines, ""])


def _training(cfg: Config, content: dict[str, Any], results: dict[str, Any]) -> dict[str, Any]:
    backbone = cfg.model.backbone
    sizes = {key: backbone[key] for key in ("type", "dim", "depth", "heads") if key in backbone}
    count = sum(value.numel() for value in content["model"].values())
    rows = dict(model=", ".join(f"{key} {value}" for key, value in sizes.items()), encoding=encoding_name(cfg))
    rows |= dict(weights=str(count), epochs=str(results.get("epochs", cfg.train_cfg.max_epochs)))
    return rows | (dict(seed=str(results["seed"])) if "seed" in results else {})


def _data(content: dict[str, Any]) -> str:
    """Return the data card: the classes, and the number of training samples of each."""
    train = content.get("data", {}).get("train", {}).get("classes", {})
    counts = {entry["name"]: entry["samples"] for entry in train.values() if entry["name"]}
    classes = content.get("classes", [])
    rows = [f"- {plain(name)}{f', {counts[name]} samples' if name in counts else ''}" for name in classes[:MAX_CLASSES]]
    more = [f"- and {len(classes) - MAX_CLASSES} more"] if len(classes) > MAX_CLASSES else []
    return "\n".join([f"## Data\n\nTrained on {len(classes)} classes:\n", *rows, *more, ""]) if rows else ""


def _without_paths(value: Any) -> Any:
    """Replace absolute paths, which are of the machine that trained the model, by data/NAME."""
    if isinstance(value, dict):
        return {key: _without_paths(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(map(_without_paths, value))
    source, colon, path = value.rpartition(":") if isinstance(value, str) else ("", "", "")  # timm:/home/me/vit.pth
    return f"{source}{colon}data/{Path(path).name}" if Path(path).is_absolute() else value


def _results(path: Path) -> dict[str, Any]:
    """Return the results next to a checkpoint, without absolute paths; empty if there are none."""
    if not path.is_file():
        return {}
    try:
        results = foreign.plain_json(path)
        _ = [Quantity.parse(quantity) for quantity in results.get("quantities", {}).values()]
    except (ValueError, AttributeError):
        results = None
    if not isinstance(results, dict) or not isinstance(results.get("test", {}), dict):
        raise DataError(
            f"{path} is damaged: it is not a file that a run wrote. Delete it to write a card without results"
        )
    return _without_paths(results)
