"""`dataset`: what the datasets of all three loaders have in common - a type, a fold - said once."""

from typing import Any

from ndformer.framework.data.dataset import SPLITS
from ndformer.framework.engine.config.data_root import datasets_of
from ndformer.framework.engine.config.merging import merged

OWN = ("split", "transforms")  # of each loader: a dataset of another type has them too


def spread(layer: dict[str, Any], base: dict[str, Any]) -> dict[str, Any]:
    """A layer of settings over a base: its `dataset` stands in its three loaders, below what these say themselves. The
    layers that wait in it, `sample` and `versions`, alike."""
    found = dict(layer)
    if isinstance(layer.get("sample"), dict):
        found["sample"] = spread(layer["sample"], base.get("sample") or {})
    if isinstance(layer.get("versions"), dict):
        found["versions"] = {
            name: spread(one, (base.get("versions") or {}).get(name, {})) if isinstance(one, dict) else one
            for name, one in layer["versions"].items()
        }
    shared = found.get("dataset")
    if not isinstance(shared, dict):
        return found  # None, or what check() has a sentence for
    del found["dataset"]
    if shared.get("_delete_"):
        found.setdefault("sample", None)  # the base's, which is of other data
    for split in SPLITS:
        loader = found.get(at := f"{split}_dataloader", {})
        if isinstance(loader, dict) and isinstance(own := loader.get("dataset", {}), dict):
            kept = datasets_of(base).get(split, {}) if shared.get("_delete_") else {}
            below = {key: value for key, value in kept.items() if key in OWN} | shared
            found[at] = loader | dict(dataset=merged(below, own))
    return found


def placed(keys: tuple[str, ...]) -> list[tuple[str, ...]]:
    """The places in a config that an option is for: dataset.fold is one in each loader."""
    start = 1 if keys[0] == "sample" else 2 if keys[0] == "versions" else 0
    if keys[start : start + 1] != ("dataset",):
        return [keys]
    return [(*keys[:start], f"{split}_dataloader", *keys[start:]) for split in SPLITS]
