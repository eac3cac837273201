"""A folder that is ready to be published (Hugging Face's hub and others): model card, weights, config, results.

write(folder, cfg, content, run, "cc-by-4.0")      ndformer.load(folder) answers as the model does
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
TASKS = {  # the hub's word, by modality and what answers are measured with
    ("image", "Accuracy"): "image-classification",
    ("image", "CocoMetric"): "object-detection",
    ("image", "MeanIoU"): "image-segmentation",
    ("video", "Accuracy"): "video-classification",
}
NAMED = 1000  # classes in a card


def can_write(folder: Path) -> None:
    """Make the folder around it, and raise unless there is a place for it."""
    atomic.make_folder_of(folder)
    if folder.exists() and not (folder.is_dir() and (not any(folder.iterdir()) or (folder / exported.PLACE).is_file())):
        raise DataError(f"{folder} holds other things already: name a folder that is new")


def write(folder: Path, cfg: Config, content: dict[str, Any], run: Path, licence: str) -> None:
    """`content` is that of a checkpoint, and `run` the folder where its results may be."""
    folder.mkdir(exist_ok=True)
    exported.export(folder / exported.PLACE, {k: v for k, v in content.items() if k != "config"})
    saved.write(folder, _from_anywhere(cfg.to_dict()))
    results = _results(run / RESULTS)
    if results:
        atomic.write(folder / RESULTS, json.dumps(results, indent=2) + "\n")
    atomic.write(folder / CARD, card(folder.name, cfg, content, results, licence))


def card(name: str, cfg: Config, content: dict[str, Any], results: dict[str, Any], licence: str) -> str:
    """The text of the card. Names of others, of classes and of files, are text in it and nothing else."""
    encoding, data = encoding_name(cfg), dataset_name(cfg)
    modalities = list(cfg.model.modalities)
    task = TASKS.get((modalities[0], cfg.metrics[0].type)) if len(modalities) == 1 else None
    shown = f"{data}, a generated stand-in" if results.get("sample") else data
    figures = {key: value for key, value in results.get("test", {}).items() if isinstance(value, (int, float))}
    head: dict[str, Any] = dict(library_name="ndformer", license=licence)
    head |= dict(pipeline_tag=task) if task else {}
    head |= dict(tags=["ndformer", *modalities, encoding], metrics=sorted(figures))
    if figures:
        measured = [dict(type=key, value=value) for key, value in figures.items()]
        result = dict(task=dict(type=task or "other"), dataset=dict(name=shown, type=data.lower()), metrics=measured)
        head["model-index"] = [dict(name=name, results=[result])]
    measured = {name: Quantity.parse(one) for name, one in results.get("quantities", {}).items()}
    quantity = lambda key: measured[key] if key in measured else find_quantity(cfg.metrics, key)
    shown_figures = {key: quantity(key).log_text(value) for key, value in figures.items()}
    of_val = " (the val split of the data, which has no test split)" if results.get("test_is_val") else ""
    front = "".join(f"{key}: {json.dumps(value)}\n" for key, value in head.items())  # JSON is YAML
    parts = [
        f"---\n{front}---\n\n# {plain(name)}\n",
        f"{plain(encoding)} on {plain(shown)}, a model of ndformer {__version__}.\n",
        _use(name),
        _table("Results", f"On the test set{of_val}, read once with the checkpoint best on validation.", shown_figures),
        _table("Training", "", _told(cfg, content, results)),
        _data(content),
    ]
    return "\n".join(part for part in parts if part)


def plain(text: Any) -> str:
    """In Markdown, this text and nothing else: no tag, link, row of a table or new line of its own."""
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


def _told(cfg: Config, content: dict[str, Any], results: dict[str, Any]) -> dict[str, Any]:
    backbone = cfg.model.backbone
    sizes = {key: backbone[key] for key in ("type", "dim", "depth", "heads") if key in backbone}
    count = sum(value.numel() for value in content["model"].values())
    found = dict(model=", ".join(f"{key} {value}" for key, value in sizes.items()), encoding=encoding_name(cfg))
    found |= dict(weights=str(count), epochs=str(results.get("epochs", cfg.train_cfg.max_epochs)))
    return found | (dict(seed=str(results["seed"])) if "seed" in results else {})


def _data(content: dict[str, Any]) -> str:
    """The data card: how much of what it was trained on, and the classes."""
    train = content.get("data", {}).get("train", {}).get("classes", {})
    counts = {one["name"]: one["samples"] for one in train.values() if one["name"]}
    classes = content.get("classes", [])
    rows = [f"- {plain(name)}{f', {counts[name]} samples' if name in counts else ''}" for name in classes[:NAMED]]
    more = [f"- and {len(classes) - NAMED} more"] if len(classes) > NAMED else []
    return "\n".join([f"## Data\n\nTrained to tell apart {len(classes)} classes:\n", *rows, *more, ""]) if rows else ""


def _from_anywhere(value: Any) -> Any:
    """A config without the places of files on the machine that trained it."""
    if isinstance(value, dict):
        return {key: _from_anywhere(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(map(_from_anywhere, value))
    source, colon, path = value.rpartition(":") if isinstance(value, str) else ("", "", "")  # timm:/home/me/vit.pth
    return f"{source}{colon}data/{Path(path).name}" if Path(path).is_absolute() else value


def _results(path: Path) -> dict[str, Any]:
    """What a run left beside its checkpoint, without the place of its config; nothing where there is none."""
    if not path.is_file():
        return {}
    try:
        found = foreign.plain_json(path)
        _ = [Quantity.parse(one) for one in found.get("quantities", {}).values()]
    except (ValueError, AttributeError):
        found = None
    if not isinstance(found, dict) or not isinstance(found.get("test", {}), dict):
        raise DataError(f"{path} is damaged, it is not what a run writes: take it away, and the card has no figures")
    return _from_anywhere(found)
