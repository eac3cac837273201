"""The config key `data_root`: the data folder of every dataset that does not set its own."""

from pathlib import Path
from typing import Any

from ndformer.framework.data.dataset import SPLITS
from ndformer.framework.engine.config.references import absolute_reference


def drop_repeated_roots(cfg: dict[str, Any]) -> dict[str, Any]:
    """Remove `data_root` from datasets where it equals the config's, so that they follow when the config's changes.

    Configs of older runs repeat it.
    """
    changed = {
        f"{split}_dataloader": cfg[f"{split}_dataloader"] | dict(dataset=_without(dataset, cfg.get("data_root")))
        for split, dataset in loader_datasets(cfg).items()
    }
    return cfg | changed


def absolute(cfg: dict[str, Any]) -> dict[str, Any]:
    """Return the config with absolute paths of data folders and of `weights`."""
    weights = cfg.get("weights")
    changed = dict(weights=absolute_reference(weights)) if isinstance(weights, str) and weights else {}
    return _absolute_roots(cfg) | changed


def _absolute_roots(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _absolute_roots(inner) for key, inner in value.items()} | _absolute_root(value)
    return type(value)(map(_absolute_roots, value)) if isinstance(value, (list, tuple)) else value


def _absolute_root(cfg: dict[str, Any]) -> dict[str, str]:
    root = cfg.get("data_root")
    return dict(data_root=str(Path(root).absolute())) if isinstance(root, str) and root else {}


def unused_data_root(cfg: dict[str, Any]) -> list[str]:
    """Return a problem if the config has a `data_root` that no dataset uses."""
    datasets = loader_datasets(cfg)
    if cfg["data_root"] is None or not datasets or any(map(_follows, datasets.values())):
        return []
    return ["data_root: nothing reads it, since every dataset sets its own. Remove it here, or in the datasets"]


def loader_datasets(cfg: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the dataset configs by split, without values that are not dicts."""
    loaders = {split: cfg.get(f"{split}_dataloader") for split in SPLITS}
    datasets = {split: loader.get("dataset") for split, loader in loaders.items() if isinstance(loader, dict)}
    return {split: dataset for split, dataset in datasets.items() if isinstance(dataset, dict)}


def mixture_parts(dataset: dict[str, Any]) -> dict[str, Any]:
    """Return the parts of a mixture by name; none for other datasets."""
    parts = dataset.get("parts")
    return {name: part for name, part in parts.items() if isinstance(part, dict)} if isinstance(parts, dict) else {}


def _without(dataset: dict[str, Any], root: Any) -> dict[str, Any]:
    changed = {key: value for key, value in dataset.items() if key != "data_root" or value != root}
    parts = {name: _without(part, root) for name, part in mixture_parts(dataset).items()}
    return changed | dict(parts=dataset["parts"] | parts) if parts else changed


def _follows(dataset: dict[str, Any]) -> bool:
    parts = mixture_parts(dataset).values()
    return "data_root" not in dataset and (not parts or any(map(_follows, parts)))
