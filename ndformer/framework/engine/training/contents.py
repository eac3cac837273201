"""What a checkpoint holds: the one place that knows its keys (the schema), and a sentence for each that is wrong."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from ndformer.framework.data.dataset import MAX_LETTERS
from ndformer.framework.errors import DataError

Test = Callable[[Any], bool]


class Key(NamedTuple):
    holds: Test
    what: str  # it is to be


def number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def count(value: Any) -> bool:
    return number(value) and isinstance(value, int) and 0 <= value < 2**53


def text(value: Any) -> bool:
    return isinstance(value, str)


def class_name(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= MAX_LETTERS


def name(value: Any) -> bool:
    return isinstance(value, str) and value.isprintable()


def tensor(value: Any) -> bool:
    return isinstance(value, Tensor)


def table(value: Any) -> bool:
    return isinstance(value, dict)


def by_name(one: Test) -> Test:
    return lambda value: isinstance(value, dict) and all(name(key) and one(inner) for key, inner in value.items())


def several(one: Test) -> Test:
    return lambda value: isinstance(value, list) and all(map(one, value))


def none_or(one: Test) -> Test:
    return lambda value: value is None or one(value)


def with_keys(**keys: Test) -> Test:
    return lambda value: isinstance(value, dict) and all(key in value and one(value[key]) for key, one in keys.items())


WEIGHTS = Key(by_name(tensor), "tensors by their names")
TOLD = dict(  # beside weights, as far as it is there
    format=Key(count, "a whole number"),
    classes=Key(several(class_name), f"a list of names of at most {MAX_LETTERS} letters"),
    epoch=Key(count, "a whole number"),
    metrics=Key(by_name(number), "numbers by their names"),
    config=Key(text, "a text"),
    architecture=Key(text, "a text"),
    data=Key(by_name(table), "fingerprints of the data, by split"),
    threads=Key(count, "a whole number"),
)
RUN = dict(  # all that a run goes on from
    optimizer=Key(with_keys(state=table, param_groups=several(table)), "the state of an optimizer"),
    ema=Key(none_or(WEIGHTS.holds), "tensors by their names, or None"),
    scaler=Key(by_name(number), "the state of a scaler for fp16"),
    skipped=Key(count, "a whole number"),
    updates=Key(count, "a whole number"),
    iter=Key(count, "a whole number"),
    batch=Key(count, "a whole number"),
    progress=Key(with_keys(done=count, loss=number, steps=count), "the state of the progress: done, loss and steps"),
    seconds=Key(number, "a number"),
    history=Key(several(by_name(number)), "a list of numbers by their names, one for each epoch"),
    bad=Key(by_name(table), "what could not be read, by split"),
    processes=Key(lambda value: count(value) and value > 0, "a whole number from 1 on"),
    settings=Key(with_keys(train_cfg=with_keys(max_epochs=count)), "the config as a dict, with train_cfg.max_epochs"),
    epoch=TOLD["epoch"],
    classes=TOLD["classes"],
)


def check(content: Any, path: str | Path, newest: int) -> None:
    """That of any checkpoint: weights, and what may stand beside them."""
    if not isinstance(content, dict) or not isinstance(content.get("model"), dict):
        raise DataError(
            f"{path} holds no 'model', so it is no checkpoint of ndformer: give best.pth or last.pth of a run"
        )
    _check(content, path, dict(model=WEIGHTS) | {key: one for key, one in TOLD.items() if key in content})
    if content.get("format", newest) > newest:
        raise DataError(
            f"{path} has the format {content['format']}, and this ndformer knows those up to {newest}: use the one "
            "that wrote it, or a newer one"
        )


def check_run(content: dict[str, Any], path: Path) -> None:
    """That of last.pth too."""
    if "optimizer" not in content:
        raise DataError(f"{path} has weights but no state of a training run", "start without --resume")
    _check(content, path, RUN)


def class_names(content: dict[str, Any], path: Path, count: int) -> list[str]:
    """Those of the classes that a head tells apart; 0 where it does not say how many."""
    found = content.get("classes")
    if found is None or len(found) < count:
        told = "no names of classes" if found is None else f"{len(found)} names for {count} classes"
        raise DataError(f"{path} has {told}, which answers are told in: give best.pth or last.pth of a run")
    return found


def _check(content: dict[str, Any], path: str | Path, keys: dict[str, Key]) -> None:
    for key, (holds, what) in keys.items():
        if key not in content:
            raise DataError(f"{path} lacks '{key}', {what}: give a checkpoint that a run of ndformer wrote")
        if not holds(content[key]):
            kind = type(content[key]).__name__
            raise DataError(
                f"'{key}' in {path}: expected {what}, got a different {kind}. Give a checkpoint that ndformer wrote"
            )
