"""Whether the loaders of a config read what their names say, and nothing that another one reads (leakage)."""

from typing import Any

from ndformer.framework.data.dataset import Dataset, rooted
from ndformer.framework.engine.config.data_root import datasets_of, parts_of
from ndformer.framework.registry import DATASETS
from ndformer.framework.registry.signature import arguments

Sets = dict[str, dict[str, Any]]  # the datasets of a loader: one by its place, or the parts of a mixture


def misread(cfg: dict[str, Any]) -> list[str]:
    """A sentence for each split that does not suit its loader, and for each that would overlap with another's."""
    loaders = {
        split: _sets(dataset, cfg["data_root"])
        for split, dataset in datasets_of(cfg).items()
        if not cfg[f"{split}_dataloader"].get("any_split")
    }
    found = [problem for split, sets in loaders.items() for problem in _named(split, sets)]
    for split, other in (("val", "train"), ("test", "train"), ("test", "val")):
        for name in loaders.get(split, {}).keys() & loaders.get(other, {}).keys():
            found += _overlapping(split, loaders[split][name], other, loaders[other][name], name)
    return found


def _sets(dataset: dict[str, Any], root: Any) -> Sets:
    dataset = rooted(dataset, root)
    parts = parts_of(dataset)
    outer = {key: dataset[key] for key in ("split",) if key in dataset}
    return {f".parts.{name}": outer | rooted(part, dataset.get("data_root")) for name, part in parts.items()} or {
        "": dataset
    }


def _named(split: str, sets: Sets) -> list[str]:
    found = []
    for name, dataset in sets.items():
        known = arguments(DATASETS.get(dataset["type"]))[0]
        read = dataset.get("split", known["split"].default) if "split" in known else split
        if read != split:
            what = f"is '{read}'" if "split" in dataset else f"is missing, and would be '{read}'"
            found.append(
                f"{split}_dataloader.dataset{name}.split {what}: write '{split}', or {split}_dataloader.any_split=True "
                "where that is wanted"
            )
    return found


def _overlapping(split: str, one: dict[str, Any], other_split: str, other: dict[str, Any], name: str) -> list[str]:
    """Two splits of one set are only apart if both cut it in the same way."""
    kind = DATASETS.get(one["type"])
    if (one["type"], one.get("data_root")) != (other["type"], other.get("data_root")) or not issubclass(kind, Dataset):
        return []
    known = arguments(kind)[0]
    found = []
    cuts = kind.parted_by + (() if split == "test" else kind.held_out_by)
    for option in (name for name in cuts if name in known):
        mine, theirs = (dataset.get(option, known[option].default) for dataset in (one, other))
        if mine != theirs:
            found.append(
                f"{split}_dataloader.dataset{name}.{option}: is {mine!r}, and {theirs!r} for {other_split}: they would "
                f"share samples, write the same in both (dataset.{option} is for all), or {split}_dataloader."
                "any_split=True where that is wanted"
            )
    return found
