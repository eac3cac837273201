"""Merge settings by mmengine's rules; spread the key `dataset` over the datasets of all three loaders."""

from typing import Any

from ndformer.framework.data.dataset import SPLITS
from ndformer.framework.engine.config.data_root import loader_datasets
from ndformer.framework.errors import ConfigError, UnknownNameError
from ndformer.framework.registry import DATASETS
from ndformer.framework.registry.signature import arguments

LOADER_KEYS = ("split", "transforms")  # set by each loader; a dataset of another type keeps them


def merge(base: dict[str, Any], over: dict[str, Any], path: str = "") -> dict[str, Any]:
    """Merge `over` into `base`: dicts key by key, other values replace; `_delete_=True` replaces a dict too."""
    return base | {
        key: merge_values(base[key], value, f"{path}{key}") if key in base else value for key, value in over.items()
    }


def merge_values(old: Any, new: Any, path: str) -> Any:
    if not isinstance(new, dict):
        return new
    new = dict(new)
    if new.pop("_delete_", False) or old is None:
        return new
    if not isinstance(old, dict):
        raise ConfigError(f"{path}: a dict cannot merge with {old!r:.60}. Add _delete_=True to the dict to replace it")
    return merge(old, new, f"{path}.")


def spread_dataset(layer: dict[str, Any], base: dict[str, Any]) -> dict[str, Any]:
    """Move `dataset` of a layer of settings into its three loaders, under their own settings.

    The same is done in its `sample` and `versions`.
    """
    changed = dict(layer)
    if isinstance(layer.get("sample"), dict):
        changed["sample"] = spread_dataset(layer["sample"], base.get("sample") or {})
    if isinstance(layer.get("versions"), dict):
        versions = base.get("versions") or {}
        changed["versions"] = {
            name: spread_dataset(version, versions.get(name, {})) if isinstance(version, dict) else version
            for name, version in layer["versions"].items()
        }
    shared = changed.get("dataset")
    if not isinstance(shared, dict):
        return changed  # None, or a value that load.check() refuses
    del changed["dataset"]
    if shared.get("_delete_"):
        changed.setdefault("sample", None)  # the base's sample is for another dataset
    for split in SPLITS:
        loader = changed.get(name := f"{split}_dataloader", {})
        if isinstance(loader, dict) and isinstance(dataset := loader.get("dataset", {}), dict):
            replaced = loader_datasets(base).get(split, {}) if shared.get("_delete_") else {}
            below = {key: value for key, value in replaced.items() if key in LOADER_KEYS} | shared
            changed[name] = loader | dict(dataset=merge(below, dataset))
    return changed


def with_sample_datasets(small: dict[str, Any], cfg: dict[str, Any]) -> dict[str, Any]:
    """Return the merged config without arguments of `cfg`'s datasets that the sample's dataset types lack."""
    of_sample, changed = loader_datasets(cfg["sample"]), {}
    for split, dataset in loader_datasets(cfg).items():
        kind = of_sample.get(split, {}).get("type", dataset.get("type"))
        if kind == dataset.get("type"):
            continue
        try:
            known, accepts_all = arguments(DATASETS.get(str(kind)))
        except UnknownNameError:
            continue  # checked later, after custom_imports
        loader = small[f"{split}_dataloader"]
        accepted = {
            key: value
            for key, value in loader["dataset"].items()
            if accepts_all or key == "type" or key in known or key in of_sample[split]
        }
        changed[f"{split}_dataloader"] = loader | dict(dataset=accepted)
    return small | changed


def option_paths(keys: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Return the config paths that an option sets: `dataset.fold` sets one in each loader."""
    start = 1 if keys[0] == "sample" else 2 if keys[0] == "versions" else 0
    if keys[start : start + 1] != ("dataset",):
        return [keys]
    return [(*keys[:start], f"{split}_dataloader", *keys[start:]) for split in SPLITS]
