"""Checks of the `split` of each loader's dataset, and of options whose difference would make splits overlap."""

from typing import Any

from ndformer.framework.data.dataset import Dataset, rooted
from ndformer.framework.engine.config.data_root import loader_datasets, mixture_parts
from ndformer.framework.registry import DATASETS
from ndformer.framework.registry.signature import arguments

Sets = dict[str, dict[str, Any]]  # the datasets of a loader by path: one, or the parts of a mixture


def split_problems(cfg: dict[str, Any]) -> list[str]:
    """Return a problem for each split that is not its loader's, and for each that overlaps with another."""
    loaders = {
        split: _sets(dataset, cfg["data_root"])
        for split, dataset in loader_datasets(cfg).items()
        if not cfg[f"{split}_dataloader"].get("any_split")
    }
    problems = [problem for split, sets in loaders.items() for problem in _wrong_split(split, sets)]
    for split, other in (("val", "train"), ("test", "train"), ("test", "val")):
        for name in loaders.get(split, {}).keys() & loaders.get(other, {}).keys():
            problems += _overlapping(split, loaders[split][name], other, loaders[other][name], name)
    return problems


def _sets(dataset: dict[str, Any], root: Any) -> Sets:
    dataset = rooted(dataset, root)
    parts = mixture_parts(dataset)
    outer = {key: dataset[key] for key in ("split",) if key in dataset}
    return {f".parts.{name}": outer | rooted(part, dataset.get("data_root")) for name, part in parts.items()} or {
        "": dataset
    }


def _wrong_split(split: str, sets: Sets) -> list[str]:
    problems = []
    for name, dataset in sets.items():
        parameters = arguments(DATASETS.get(dataset["type"]))[0]
        read = dataset.get("split", parameters["split"].default) if "split" in parameters else split
        if read != split:
            got = f"is '{read}'" if "split" in dataset else f"is missing, and would be '{read}'"
            problems.append(
                f"{split}_dataloader.dataset{name}.split {got}. Write '{split}', or {split}_dataloader.any_split=True "
                "if this is intended"
            )
    return problems


def _overlapping(split: str, dataset: dict[str, Any], other_split: str, other: dict[str, Any], name: str) -> list[str]:
    """Return a problem for each option that must be equal in both, so that the splits are disjoint, and is not."""
    kind = DATASETS.get(dataset["type"])
    if (dataset["type"], dataset.get("data_root")) != (other["type"], other.get("data_root")) or not issubclass(
        kind, Dataset
    ):
        return []
    parameters = arguments(kind)[0]
    problems = []
    cuts = kind.parted_by + (() if split == "test" else kind.held_out_by)
    for option in (name for name in cuts if name in parameters):
        value, other_value = (each.get(option, parameters[option].default) for each in (dataset, other))
        if value != other_value:
            problems.append(
                f"{split}_dataloader.dataset{name}.{option}: is {value!r}, and {other_value!r} for {other_split}, so "
                f"they would share samples. Write the same in both (dataset.{option} sets all), or {split}_dataloader."
                "any_split=True if this is intended"
            )
    return problems
