"""The schema of a checkpoint: its keys, a check of each value, and the errors for missing and wrong keys."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from ndformer.framework.data.dataset import MAX_LETTERS
from ndformer.framework.errors import DataError

FORMAT = 3  # 3: with a digest, and with fingerprints of the data
MANIFEST = "manifest.json"  # in a checkpoint that is a folder, last/, previous/ or best/; see sharded.py

Test = Callable[[Any], bool]


class Key(NamedTuple):
    """The check of a key's value, and the words for a right value."""

    is_valid: Test
    expected: str


def number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def count(value: Any) -> bool:
    return number(value) and isinstance(value, int) and 0 <= value < 2**53


def kind(*types: type) -> Test:
    return lambda value: isinstance(value, types)


def class_name(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= MAX_LETTERS


def name(value: Any) -> bool:
    return isinstance(value, str) and value.isprintable()


def by_name(test: Test) -> Test:
    return lambda value: isinstance(value, dict) and all(name(key) and test(inner) for key, inner in value.items())


def several(test: Test) -> Test:
    return lambda value: isinstance(value, list) and all(map(test, value))


def with_keys(**keys: Test) -> Test:
    return lambda value: (
        isinstance(value, dict) and all(key in value and test(value[key]) for key, test in keys.items())
    )


WEIGHTS, COUNT, table = Key(by_name(kind(Tensor)), "tensors by name"), Key(count, "a whole number"), kind(dict)
POSITIVE = Key(lambda value: count(value) and value > 0, "a whole number of 1 or more")
METADATA = dict(  # optional, beside the weights
    format=COUNT,
    classes=Key(several(class_name), f"a list of names of up to {MAX_LETTERS} letters"),
    epoch=COUNT,
    metrics=Key(by_name(number), "numbers by name"),
    config=Key(kind(str), "a text"),
    architecture=Key(kind(str), "a text"),
    data=Key(by_name(table), "fingerprints of the data, by split"),
    threads=COUNT,
    batches=POSITIVE,
    accumulate=POSITIVE,
    hooks=Key(by_name(lambda value: True), "the states of hooks, by name"),
)
RUN = dict(  # required to resume a run
    optimizer=Key(with_keys(state=table, param_groups=several(table)), "the state of an optimizer"),
    ema=Key(lambda value: value is None or WEIGHTS.is_valid(value), "tensors by name, or None"),
    scaler=Key(by_name(number), "the state of the fp16 gradient scaler"),
    skipped=COUNT,
    updates=COUNT,
    iter=COUNT,
    batch=COUNT,
    progress=Key(with_keys(done=count, loss=number, steps=count), "the state of the progress: done, loss and steps"),
    seconds=Key(number, "a number"),
    history=Key(several(by_name(number)), "a list of numbers by name, one for each epoch"),
    bad=Key(by_name(table), "samples that could not be used, by split"),
    processes=POSITIVE,
    settings=Key(with_keys(train_cfg=with_keys(max_epochs=count)), "the config as a dict, with train_cfg.max_epochs"),
    epoch=COUNT,
    classes=METADATA["classes"],
)


def check(content: Any, path: str | Path) -> None:
    """Raise unless `content` has the keys of a checkpoint: weights, and optional metadata."""
    if not isinstance(content, dict) or not isinstance(content.get("model"), dict):
        raise DataError(
            f"{path}: expected a checkpoint of ndformer, got a file without 'model'. Give best.pth or last.pth of a run"
        )
    _check(content, path, dict(model=WEIGHTS) | {name: key for name, key in METADATA.items() if name in content})
    if content.get("format", FORMAT) > FORMAT:
        raise DataError(
            f"{path}: expected a checkpoint format up to {FORMAT}, got {content['format']}. Use the version of "
            "ndformer that wrote it, or a newer one"
        )


def check_run(content: dict[str, Any], path: Path) -> None:
    """Raise unless a checkpoint also has what is needed to resume its run, as last.pth has."""
    if "optimizer" not in content:
        raise DataError(f"{path} has weights, but no state of a training run", "start without --resume")
    _check(content, path, RUN)


def class_names(content: dict[str, Any], path: Path, count: int) -> list[str]:
    """Return the class names of a checkpoint, at least `count`."""
    names = content.get("classes")
    if names is None or len(names) < count:
        got = "no class names" if names is None else f"{len(names)}"
        raise DataError(f"{path}: expected {count} class names, got {got}. Give best.pth or last.pth of a run")
    return names


def _check(content: dict[str, Any], path: str | Path, keys: dict[str, Key]) -> None:
    for key, (is_valid, expected) in keys.items():
        if key not in content:
            raise DataError(
                f"{path}: expected '{key}', {expected}, got no such key. Give a checkpoint that ndformer wrote"
            )
        if not is_valid(content[key]):
            kind = type(content[key]).__name__
            raise DataError(
                f"'{key}' in {path}: expected {expected}, got a different {kind}. Give a checkpoint that ndformer wrote"
            )


def unwritable(path: Path, cause: str) -> DataError:
    return DataError(
        f"{path} cannot be written ({cause:.100}). The checkpoint before it is intact: free disk space or change "
        "permissions",
        "then --resume continues",
    )
