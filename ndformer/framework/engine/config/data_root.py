"""`data_root`, the folder of the data: said once, for every dataset that does not name its own."""

from pathlib import Path
from typing import Any

from ndformer.framework.data.dataset import SPLITS
from ndformer.framework.engine.config.references import absolute_reference


def following(cfg: dict[str, Any]) -> dict[str, Any]:
    """Without `data_root` in the datasets where it is the config's own, so that they follow when that changes: people
    repeat it, and so did the configs that runs left behind."""
    changed = {
        f"{split}_dataloader": cfg[f"{split}_dataloader"] | dict(dataset=_without(dataset, cfg.get("data_root")))
        for split, dataset in datasets_of(cfg).items()
    }
    return cfg | changed


def absolute(cfg: dict[str, Any]) -> dict[str, Any]:
    """With folders of data, and the `weights` that it begins with, as they are called from anywhere."""
    weights = cfg.get("weights")
    named = dict(weights=absolute_reference(weights)) if isinstance(weights, str) and weights else {}
    return _from_anywhere(cfg) | named


def _from_anywhere(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _from_anywhere(one) for key, one in value.items()} | _absolute_root(value)
    return type(value)(map(_from_anywhere, value)) if isinstance(value, (list, tuple)) else value


def _absolute_root(cfg: dict[str, Any]) -> dict[str, str]:
    root = cfg.get("data_root")
    return dict(data_root=str(Path(root).absolute())) if isinstance(root, str) and root else {}


def nobody_follows(cfg: dict[str, Any]) -> list[str]:
    """A sentence, if there is a `data_root` and no dataset follows it."""
    datasets = datasets_of(cfg)
    if cfg["data_root"] is None or not datasets or any(map(_follows, datasets.values())):
        return []
    return ["data_root: nothing reads it, every dataset names its own: leave it out there, or here"]


def datasets_of(cfg: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Split by split, as far as they are what they are to be."""
    loaders = {split: cfg.get(f"{split}_dataloader") for split in SPLITS}
    found = {split: loader.get("dataset") for split, loader in loaders.items() if isinstance(loader, dict)}
    return {split: dataset for split, dataset in found.items() if isinstance(dataset, dict)}


def parts_of(dataset: dict[str, Any]) -> dict[str, Any]:
    """Those of a mixture."""
    parts = dataset.get("parts")
    return {name: part for name, part in parts.items() if isinstance(part, dict)} if isinstance(parts, dict) else {}


def _without(dataset: dict[str, Any], root: Any) -> dict[str, Any]:
    kept = {key: value for key, value in dataset.items() if key != "data_root" or value != root}
    parts = {name: _without(part, root) for name, part in parts_of(dataset).items()}
    return kept | dict(parts=dataset["parts"] | parts) if parts else kept


def _follows(dataset: dict[str, Any]) -> bool:
    parts = parts_of(dataset).values()
    return "data_root" not in dataset and (not parts or any(map(_follows, parts)))
